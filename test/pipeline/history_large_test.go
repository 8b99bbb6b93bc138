package pipeline_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// random are bytes that cannot be compressed.
func random(t *testing.T, size int) []byte {
	t.Helper()
	all := make([]byte, size)
	if _, err := rand.Read(all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestHistoryOfWhatIsTooLarge: a revision or a deleted object that the storage cannot have is shown as such, and cannot be brought back.
func TestHistoryOfWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	large := fleettest.ConfigMap(ns, "large", map[string]string{"a": "1"})
	// The override policy is for another cluster: it is part of the revision, and of no Work.
	override := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "large"}}
	override.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: "large"}}
	override.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{
		TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member2"}},
		Overriders: policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{
			Path: "/data/a", Operator: policyv1alpha1.OverriderOpReplace,
			Value: apiextensionsv1.JSON{Raw: []byte(`"` + base64.StdEncoding.EncodeToString(random(t, 400<<10)) + `"`)},
		}}},
	}}
	fleettest.Create(t, fleet.Hub, override, large, fleettest.Policy(ns, "large", fleettest.To("member1"), large))
	has := func(size int) func(*corev1.ConfigMap) error {
		return func(c *corev1.ConfigMap) error {
			if len(c.BinaryData["x"]) != size {
				return fmt.Errorf("it has %d bytes, want %d", len(c.BinaryData["x"]), size)
			}
			return nil
		}
	}
	fleettest.ExpectEventually(t, fleet.Member("member1"), large.DeepCopy(), has(0))
	const size = 800 << 10
	fleettest.Update(t, fleet.Hub, large.DeepCopy(), func(c *corev1.ConfigMap) {
		c.BinaryData = map[string][]byte{"x": random(t, size)}
	})
	fleettest.ExpectEventually(t, fleet.Member("member1"), large.DeepCopy(), has(size))
	expect := func(number int64, condition func(fleetv1alpha1.Revision) bool) {
		t.Helper()
		q := &fleetv1alpha1.History{}
		if err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
			q = &fleetv1alpha1.History{Spec: fleetv1alpha1.HistorySpec{Kind: "ConfigMap", Namespace: ns, Name: "large"}}
			err := fleet.Hub.Create(ctx, q)
			return slices.ContainsFunc(q.Status.Revisions, func(r fleetv1alpha1.Revision) bool { return r.Revision == number && r.Current && condition(r) }), err
		}); err != nil {
			t.Fatalf("no revision %d as it should be: %v; the history is %+v", number, err, q.Status.Revisions)
		}
	}
	expect(2, func(r fleetv1alpha1.Revision) bool {
		return r.TooLargeBytes > 1400<<10 && r.User != "" && strings.HasPrefix(changesOf(r), "too large to be kept: ")
	})
	refused := func(text string, args ...string) {
		t.Helper()
		if r := fleettest.Flagship(t, append(args, "-n", ns, "--kubeconfig", fleet.Hub.Kubeconfig)...); r.Code == 0 || !strings.Contains(r.Stderr, text) {
			t.Errorf("flagship %v: code %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
		}
	}
	refused("revision 2 was too large to be stored", "history", "configmap/large", "--diff", "1", "2")
	refused("revision 2 was too large to be stored", "undo", "configmap/large", "--to", "2")
	command(t, fleet.Hub.Kubeconfig, "undo", "configmap/large", "-n", ns, "--to", "1")
	expect(3, func(r fleetv1alpha1.Revision) bool {
		return r.TooLargeBytes == 0 && changesOf(r) == "what changed is not known, since the revision before has no content"
	})

	fleettest.Update(t, fleet.Hub, large.DeepCopy(), func(c *corev1.ConfigMap) {
		c.BinaryData = map[string][]byte{"x": random(t, size)}
	})
	fleettest.ExpectEventually(t, fleet.Member("member1"), large.DeepCopy(), has(size))
	fleettest.Delete(t, fleet.Hub, large.DeepCopy())
	expectDeleted(t, fleet, ns, "ConfigMap/large")
	if out := command(t, fleet.Hub.Kubeconfig, "undelete", "-n", ns); !strings.Contains(out, "no, and too large to be kept") {
		t.Errorf("the list is\n%s", out)
	}
	refused("configmap/large was too large to be kept", "undelete", "configmap/large")
	_, metrics, err := page(t.Context(), fleet.Hub.Config, "/metrics/flagship")
	if err != nil || !strings.Contains(metrics, `flagship_history_lost_total{of="revision",reason="too_large"}`) || !strings.Contains(metrics, `flagship_history_lost_total{of="deletion",reason="too_large"}`) {
		t.Errorf("the metric does not count it: %v", err)
	}
}
