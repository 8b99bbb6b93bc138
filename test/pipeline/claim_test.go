package pipeline_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestCopiesNameThePolicyThatApplies: a policy that is deleted and made again has another id. Copies have it at once, and not only after a
// restart, which would then write all of them.
func TestCopiesNameThePolicyThatApplies(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "b"})
	of := func() *policyv1alpha1.PropagationPolicy {
		return fleettest.Policy(ns, "settings", fleettest.To("member1"), settings)
	}
	named := func(id string) func(*corev1.ConfigMap) error {
		return func(c *corev1.ConfigMap) error {
			if got := c.Labels[policyv1alpha1.PropagationPolicyPermanentIDLabel]; got != id {
				return fmt.Errorf("the copy names the policy %q, want %q", got, id)
			}
			return nil
		}
	}
	first := of()
	fleettest.Create(t, fleet.Hub, first, settings)
	id := first.Labels[policyv1alpha1.PropagationPolicyPermanentIDLabel]
	copied := fleettest.ConfigMap(ns, "settings", nil)
	fleettest.ExpectEventually(t, fleet.Member("member1"), copied, named(id))
	fleettest.Delete(t, fleet.Hub, first)
	fleettest.ExpectGone(t, fleet.Hub, first)
	fleettest.ExpectEventually(t, fleet.Member("member1"), copied, named(""))
	again := of()
	fleettest.Create(t, fleet.Hub, again)
	if again.Labels[policyv1alpha1.PropagationPolicyPermanentIDLabel] == id {
		t.Fatal("the policy has the same id again")
	}
	fleettest.ExpectEventually(t, fleet.Member("member1"), copied, named(again.Labels[policyv1alpha1.PropagationPolicyPermanentIDLabel]))
}
