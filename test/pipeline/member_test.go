package pipeline_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

func TestWhatIsDeletedInAMemberComesBack(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "1"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.Everywhere(), settings))
	m := fleet.Member("member1")
	first := fleettest.ExpectEventually(t, m, settings, fleettest.Exists)
	fleettest.Delete(t, m, first)
	fleettest.ExpectEventually(t, m, settings, func(c *corev1.ConfigMap) error {
		if c.UID == first.UID {
			return fmt.Errorf("it is still the first one")
		}
		return nil
	})
}

func TestDriftIsRepairedAndTheFieldsOfOthersStay(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "1"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.Everywhere(), settings))
	m := fleet.Member("member1")
	fleettest.ExpectEventually(t, m, settings, fleettest.Exists)
	fleettest.Update(t, m, settings.DeepCopy(), func(c *corev1.ConfigMap) {
		c.Data["a"] = "tampered"
		c.Data["theirs"] = "kept"
	})
	fleettest.ExpectEventually(t, m, settings, func(c *corev1.ConfigMap) error {
		if c.Data["a"] != "1" || c.Data["theirs"] != "kept" {
			return fmt.Errorf("data is %v", c.Data)
		}
		return nil
	})
}

func TestAnObjectThatIsNotOursIsLeftAlone(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m := fleet.Member("member1")
	fleettest.ExpectEventually(t, m, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	theirs := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "theirs"})
	fleettest.Create(t, m, theirs.DeepCopy())

	ours := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "ours"})
	policy := fleettest.Policy(ns, "settings", fleettest.To("member1"), ours)
	fleettest.Create(t, fleet.Hub, ours, policy)
	w := fleettest.ExpectEventually(t, fleet.Hub, work("member1", "ConfigMap", ns, "settings"), workIs("Applied", metav1.ConditionFalse, "AppliedFailed"))
	if c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied); !strings.Contains(c.Message, "settings") || !strings.Contains(c.Message, "already exists") {
		t.Errorf("the condition does not say which object is in the way: %s", c.Message)
	}
	fleettest.ExpectEventually(t, m, theirs, func(c *corev1.ConfigMap) error { return equal("theirs", c.Data["a"]) })

	fleettest.Update(t, fleet.Hub, policy, func(p *policyType) { p.Spec.ConflictResolution = policyv1alpha1.ConflictOverwrite })
	fleettest.ExpectEventually(t, m, theirs, func(c *corev1.ConfigMap) error { return equal("ours", c.Data["a"]) })
	fleettest.ExpectEventually(t, fleet.Hub, w, workIs("Applied", metav1.ConditionTrue, ""))
}

// What a member's autoscaler sets is the member's business when the template says so.
func TestReplicasAreRetainedOnRequest(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	web := fleettest.Deployment(ns, "web", 1)
	web.Labels["resourcetemplate.karmada.io/retain-replicas"] = "true"
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "web", fleettest.To("member1"), web), web)
	m := fleet.Member("member1")
	fleettest.ExpectEventually(t, m, web, fleettest.Exists)
	fleettest.Update(t, m, web.DeepCopy(), func(d *appsv1.Deployment) { *d.Spec.Replicas = 4 })
	fleettest.Update(t, fleet.Hub, web, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "nginx:next" })
	fleettest.ExpectEventually(t, m, web, func(d *appsv1.Deployment) error {
		if image := d.Spec.Template.Spec.Containers[0].Image; image != "nginx:next" || *d.Spec.Replicas != 4 {
			return fmt.Errorf("image %s, %d replicas", image, *d.Spec.Replicas)
		}
		return nil
	})
}

// A Work that a person writes by hand works like a rendered one.
func TestHandMadeWork(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace("member1"), Name: ns + "-by-hand"}}
	for _, manifest := range []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"` + ns + `","name":"one"},"data":{"a":"1"}}`,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"` + ns + `","name":"two"},"stringData":{"b":"2"}}`,
	} {
		m := workv1alpha1.Manifest{}
		m.Raw = []byte(manifest)
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, m)
	}
	fleettest.Create(t, fleet.Hub, w)
	one := fleettest.ExpectEventually(t, fleet.Member("member1"), fleettest.ConfigMap(ns, "one", nil), fleettest.Exists)
	if one.Labels[workv1alpha1.ManagedLabel] != "true" || one.Annotations[workv1alpha1.WorkNameAnnotation] != w.Name {
		t.Errorf("the object does not lead back to its Work: labels %v, annotations %v", one.Labels, one.Annotations)
	}
	fleettest.ExpectEventually(t, fleet.Member("member1"), fleettest.Secret(ns, "two", nil), fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, w, func(w *workv1alpha1.Work) error {
		if len(w.Status.ManifestStatuses) != 2 {
			return fmt.Errorf("%d manifest statuses", len(w.Status.ManifestStatuses))
		}
		if id := w.Status.ManifestStatuses[1].Identifier; id.Ordinal != 1 || id.Resource != "secrets" || id.Kind != "Secret" || id.Name != "two" || id.Namespace != ns {
			t.Errorf("identifier of the second manifest: %+v", id)
		}
		return nil
	})
	fleettest.Delete(t, fleet.Hub, w)
	fleettest.ExpectGone(t, fleet.Hub, w)
	fleettest.ExpectGone(t, fleet.Member("member1"), one)
}
