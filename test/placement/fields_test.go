package placement_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/fleettest"
)

// A policy that depends on overrides begins when all of them are there.
func TestDependentOverridesComeFirst(t *testing.T) {
	fleet, ns := start(t)
	settings, shared := fleettest.ConfigMap(ns, "settings", nil), fleettest.ConfigMap(ns, "shared", nil)
	own, wide := fleettest.Policy(ns, "own", fleettest.To("east-1"), settings), fleettest.ClusterPolicy("wide-"+ns, fleettest.To("east-1"), shared)
	own.Spec.DependentOverrides, wide.Spec.DependentOverrides = []string{"later"}, []string{"later-" + ns}
	fleettest.Create(t, fleet.Hub, settings, shared, own, wide)
	hears(t, fleet, ns, "settings", fmt.Sprintf("ApplyPolicyFailed: PropagationPolicy %s/own waits for override policy %q, which does not exist", ns, "later"))
	hears(t, fleet, ns, "shared", fmt.Sprintf("ApplyPolicyFailed: ClusterPropagationPolicy wide-%s waits for override policy %q, which does not exist", ns, "later-"+ns))
	fleettest.ExpectAbsent(t, fleet.Hub, binding(ns, "ConfigMap", "settings"))
	fleettest.ExpectAbsent(t, fleet.Hub, binding(ns, "ConfigMap", "shared"))
	rules := policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{}}}
	fleettest.Create(t, fleet.Hub,
		&policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "later"}, Spec: rules},
		&policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "later-" + ns}, Spec: rules})
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("east-1"))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "shared"), placed("east-1"))
}

// Who wins, and what decided against each of the others.
func TestAnOwnerIsToldWhichPolicyWon(t *testing.T) {
	fleet, ns := start(t)
	settings := fleettest.ConfigMap(ns, "settings", nil)
	named, later := fleettest.Policy(ns, "named", fleettest.To("east-1"), settings), fleettest.Policy(ns, "later", fleettest.To("east-2"), settings)
	broad, wide := fleettest.Policy(ns, "broad", fleettest.To("east-3")), fleettest.ClusterPolicy("wide-"+ns, fleettest.To("west-1"), settings)
	broad.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap"}}
	named.Spec.Priority, broad.Spec.Priority, wide.Spec.Priority = ptr.To(int32(1)), ptr.To(int32(1)), ptr.To(int32(9))
	fleettest.Create(t, fleet.Hub, later, broad, wide, named)
	// What a policy claimed stays with it, so that all have to be known before there is an object.
	probe := fleettest.ConfigMap(ns, "probe", nil)
	fleettest.Create(t, fleet.Hub, probe)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "probe"), placed("east-3"))
	fleettest.Create(t, fleet.Hub, settings)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("east-1"))
	winner := "PropagationPolicy " + ns + "/named"
	hears(t, fleet, ns, "settings", "ApplyPolicySucceed: "+winner+" applies; PropagationPolicy "+ns+"/broad: "+winner+" selects the object by name, this one by kind; "+
		"PropagationPolicy "+ns+"/later: "+winner+" has priority 1, this one 0; ClusterPropagationPolicy wide-"+ns+": "+winner+" is of the object's own namespace")
}
