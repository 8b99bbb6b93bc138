package pipeline_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestObjectsNearTheLimits: what a Work and the storage of the member take arrives; of all else the size and the limit are reported.
func TestObjectsNearTheLimits(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m := fleet.Member("member1")
	const most, note = 1 << 20, 60 << 10
	put := func(name string, fill func(*corev1.ConfigMap)) *corev1.ConfigMap {
		c := fleettest.ConfigMap(ns, name, nil)
		c.Annotations = map[string]string{"example.com/note": strings.Repeat("n", note)}
		fill(c)
		fleettest.Create(t, fleet.Hub, c, fleettest.Policy(ns, name, fleettest.To("member1"), c))
		return c
	}
	text := put("text", func(c *corev1.ConfigMap) { c.Data = map[string]string{"k": strings.Repeat("x", most)} })
	binary := put("binary", func(c *corev1.ConfigMap) { // of which JSON has four bytes for three
		c.BinaryData = map[string][]byte{"k": bytes.Repeat([]byte{0xff}, most)}
	})
	keys := put("keys", func(c *corev1.ConfigMap) { // each of which is once more in the managed fields, and of which there is a record
		c.Data = map[string]string{}
		for i := range 9000 {
			c.Data[fmt.Sprintf("key-with-a-name-that-is-not-short-%06d", i)] = strings.Repeat("x", 75)
		}
	})
	notes := put("notes", func(c *corev1.ConfigMap) { // with which a policy cannot write its own
		c.Annotations["example.com/note"] = strings.Repeat("n", 262_100-len("example.com/note"))
	})
	fleettest.ExpectListed(t, fleet.Hub, &corev1.EventList{}, ns, func(list *corev1.EventList) error {
		for _, e := range list.Items {
			if e.InvolvedObject.Name == notes.Name && e.Reason == "ApplyPolicyFailed" && strings.Contains(e.Message, "metadata.annotations: Too long") {
				return nil
			}
		}
		return fmt.Errorf("none of %d events reports that the policy does not apply", len(list.Items))
	})
	if r := fleettest.Flagship(t, "explain", "configmap", notes.Name, "-n", ns, "--kubeconfig", fleet.Hub.Kubeconfig); !strings.Contains(r.Stdout, "262100 bytes") {
		t.Errorf("explain does not report the size:\n%s%s", r.Stdout, r.Stderr)
	}
	fleettest.Update(t, fleet.Hub, notes, func(c *corev1.ConfigMap) { c.Annotations["example.com/note"] = "short" })
	fleettest.ExpectEventually(t, m, fleettest.ConfigMap(ns, notes.Name, nil), fleettest.Exists)
	fleettest.ExpectEventually(t, m, fleettest.ConfigMap(ns, text.Name, nil), func(c *corev1.ConfigMap) error {
		if len(c.Data["k"]) != most || len(c.Annotations["example.com/note"]) != note {
			return fmt.Errorf("it has %d bytes and a note of %d", len(c.Data["k"]), len(c.Annotations["example.com/note"]))
		}
		return nil
	})
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", binary.Name), func(b *workv1alpha2.ResourceBinding) error {
		return reports(bindingIs(workv1alpha2.Rendered, metav1.ConditionFalse, workv1alpha2.ManifestTooLargeReason)(b),
			b.Status.Conditions, fmt.Sprintf("a Work may have %d", workv1alpha1.MaxManifestBytes))
	})
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", keys.Name), func(b *workv1alpha2.ResourceBinding) error {
		if len(b.Status.AggregatedStatus) != 1 || !strings.Contains(b.Status.AggregatedStatus[0].AppliedMessage, "bytes of JSON") ||
			!strings.Contains(b.Status.AggregatedStatus[0].AppliedMessage, "1.5 MiB") {
			return fmt.Errorf("its status is %+v", b.Status.AggregatedStatus)
		}
		return nil
	})
}

// reports is err, or an error if no condition has a text in its message.
func reports(err error, conditions []metav1.Condition, text string) error {
	if err != nil {
		return err
	}
	for _, c := range conditions {
		if strings.Contains(c.Message, text) {
			return nil
		}
	}
	return fmt.Errorf("no condition has %q: %+v", text, conditions)
}
