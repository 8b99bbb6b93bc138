package pipeline_test

import (
	"bytes"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// While dispatching is suspended nothing is changed, recreated or taken away; resuming catches up with all of it.
func TestSuspendedDispatchingPausesAndCatchesUp(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	one, two := fleet.Member("member1"), fleet.Member("member2")
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"colour": "blue"})
	policy := fleettest.Policy(ns, "settings", fleettest.Everywhere(), settings)
	fleettest.Create(t, fleet.Hub, settings, policy)
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, settings, fleettest.Exists)
	}
	fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) {
		yes := true
		p.Spec.Suspension = &policyv1alpha1.Suspension{Dispatching: &yes}
	})
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, fleet.Hub, work(m.Name, "ConfigMap", ns, "settings"), workIs("Dispatching", metav1.ConditionFalse, "SuspendDispatching"))
	}

	fleettest.Delete(t, two, fleettest.ConfigMap(ns, "settings", nil))
	fleettest.Update(t, fleet.Hub, settings, func(c *corev1.ConfigMap) { c.Data["colour"] = "green" })
	fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = fleettest.To("member2") })
	fleettest.ExpectEventually(t, fleet.Hub, work("member2", "ConfigMap", ns, "settings"), func(w *workv1alpha1.Work) error {
		if !bytes.Contains(w.Spec.Workload.Manifests[0].Raw, []byte("green")) {
			return errors.New("it does not carry the change yet")
		}
		return nil
	})
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), bindingIs("Scheduled", metav1.ConditionTrue, ""))
	fleettest.ExpectEventually(t, one, settings, func(c *corev1.ConfigMap) error { return equal("blue", c.Data["colour"]) })
	fleettest.ExpectAbsent(t, two, settings)
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "ConfigMap", ns, "settings"), fleettest.Exists)

	fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Suspension = nil })
	fleettest.ExpectEventually(t, two, settings, func(c *corev1.ConfigMap) error { return equal("green", c.Data["colour"]) })
	fleettest.ExpectGone(t, one, settings)
}
