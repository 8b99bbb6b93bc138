package placement_test

import (
	"fmt"
	"reflect"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// says fills every field of a policy that its bindings repeat. There is no scheduler of the name in it.
func says(spec *policyv1alpha1.PropagationSpec) {
	state := &policyv1alpha1.StatePreservation{Rules: []policyv1alpha1.StatePreservationRule{{AliasLabelName: "job-id", JSONPath: "{ .jobId }"}}}
	spec.PropagateDeps = true
	spec.SchedulerName = "another-scheduler"
	spec.Placement = byAvailable(policyv1alpha1.ReplicaDivisionPreferenceAggregated, onPaper())
	spec.Placement.SpreadConstraints = []policyv1alpha1.SpreadConstraint{spread("region", 1, 2), spread("cluster", 1, 3)}
	spec.Placement.WorkloadAffinity = &policyv1alpha1.WorkloadAffinity{
		Affinity:     &policyv1alpha1.WorkloadAffinityTerm{GroupByLabelKey: "team"},
		AntiAffinity: &policyv1alpha1.WorkloadAntiAffinityTerm{GroupByLabelKey: "shard"},
	}
	spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
	spec.PreserveResourcesOnDeletion = ptr.To(true)
	spec.Suspension = &policyv1alpha1.Suspension{DispatchingOnClusters: &policyv1alpha1.SuspendClusters{ClusterNames: []string{"west-1"}}}
	spec.SchedulePriority = &policyv1alpha1.SchedulePriority{PriorityClassSource: policyv1alpha1.KubePriorityClass, PriorityClassName: "system-node-critical"}
	spec.Failover = &policyv1alpha1.FailoverBehavior{
		Application: &policyv1alpha1.ApplicationFailoverBehavior{
			DecisionConditions: policyv1alpha1.DecisionConditions{TolerationSeconds: ptr.To(int32(7))},
			PurgeMode:          policyv1alpha1.PurgeModeGracefully, GracePeriodSeconds: ptr.To(int32(8)), StatePreservation: state,
		},
		Cluster: &policyv1alpha1.ClusterFailoverBehavior{PurgeMode: policyv1alpha1.PurgeModeDirectly, StatePreservation: state},
	}
}

// repeats is the condition of a binding that says what a policy says, defaults included.
func repeats(policy policyv1alpha1.Propagation, priority int32) func(workv1alpha2.Binding) error {
	return func(b workv1alpha2.Binding) error {
		said, got := policy.PropagationSpec(), b.BindingSpec()
		//lint:ignore SA1019 the old name of propagateDeps keeps working
		deps := said.PropagateDeps || said.Association
		var suspension *workv1alpha2.Suspension
		if said.Suspension != nil {
			suspension = &workv1alpha2.Suspension{Suspension: *said.Suspension}
		}
		var place *workv1alpha2.SchedulePriority
		if priority != 0 {
			place = &workv1alpha2.SchedulePriority{Priority: priority}
		}
		for field, pair := range map[string][2]any{
			"placement": {&said.Placement, got.Placement}, "schedulerName": {said.SchedulerName, got.SchedulerName},
			"propagateDeps":      {deps, got.PropagateDeps},
			"conflictResolution": {said.ConflictResolution, got.ConflictResolution}, "failover": {said.Failover, got.Failover},
			"preserveResourcesOnDeletion": {said.PreserveResourcesOnDeletion, got.PreserveResourcesOnDeletion},
			"suspension":                  {suspension, got.Suspension}, "schedulePriority": {place, got.SchedulePriority},
		} {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				return fmt.Errorf("the policy's %s is %+v, the binding's %+v", field, pair[0], pair[1])
			}
		}
		return nil
	}
}

// Both kinds of policy hand on all that they say, at first and when they change.
func TestTheRulesOfAPolicyReachItsBindings(t *testing.T) {
	fleet, ns := start(t)
	settings := fleettest.ConfigMap(ns, "settings", nil)
	settings.Labels = map[string]string{"team": "red", "shard": "1"}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "placement-" + ns}}
	own, wide := fleettest.Policy(ns, "own", policyv1alpha1.Placement{}, settings), fleettest.ClusterPolicy("wide-"+ns, policyv1alpha1.Placement{}, role)
	says(&own.Spec)
	says(&wide.Spec)
	fleettest.Create(t, fleet.Hub, settings, role, own, wide)
	attached := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: workv1alpha2.BindingName("ClusterRole", role.Name)}}
	const critical = 2_000_001_000
	expectRepeated := func(priority int32) {
		t.Helper()
		b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), func(b *workv1alpha2.ResourceBinding) error { return repeats(own, priority)(b) })
		fleettest.ExpectEventually(t, fleet.Hub, attached, func(b *workv1alpha2.ClusterResourceBinding) error { return repeats(wide, priority)(b) })
		if len(b.Spec.Clusters) > 0 {
			t.Errorf("it went to %v, though another scheduler is to decide", names(b.Spec.Clusters))
		}
	}
	expectRepeated(critical)
	b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), fleettest.Exists)
	if groups := b.Spec.WorkloadAffinityGroups; groups == nil || groups.AffinityGroup != "team=red" || groups.AntiAffinityGroup != "shard=1" {
		t.Errorf("its groups are %+v", groups)
	}

	less := func(spec *policyv1alpha1.PropagationSpec) {
		//lint:ignore SA1019 the old name of propagateDeps keeps working
		spec.PropagateDeps, spec.Association = false, true
		spec.Failover, spec.Suspension, spec.SchedulePriority, spec.PreserveResourcesOnDeletion = nil, nil, nil, nil
		spec.ConflictResolution, spec.Placement = policyv1alpha1.ConflictAbort, fleettest.To("east-1")
	}
	fleettest.Update(t, fleet.Hub, own, func(p *policyv1alpha1.PropagationPolicy) { less(&p.Spec) })
	fleettest.Update(t, fleet.Hub, wide, func(p *policyv1alpha1.ClusterPropagationPolicy) { less(&p.Spec) })
	expectRepeated(0)

	for _, policy := range []client.Object{own, wide} {
		policy.(policyv1alpha1.Propagation).PropagationSpec().SchedulerName = policyv1alpha1.DefaultSchedulerName
		if err := fleet.Hub.Update(t.Context(), policy); !apierrors.IsInvalid(err) {
			t.Errorf("another scheduler for a %T: %v, want a refusal", policy, err)
		}
	}
}

// A policy that depends on overrides begins when all of them are there.
func TestDependentOverridesComeFirst(t *testing.T) {
	fleet, ns := start(t)
	settings, shared := fleettest.ConfigMap(ns, "settings", nil), fleettest.ConfigMap(ns, "shared", nil)
	own, wide := fleettest.Policy(ns, "own", fleettest.To("east-1"), settings), fleettest.ClusterPolicy("wide-"+ns, fleettest.To("east-1"), shared)
	own.Spec.DependentOverrides, wide.Spec.DependentOverrides = []string{"later"}, []string{"later-" + ns}
	fleettest.Create(t, fleet.Hub, settings, shared, own, wide)
	expectEvent(t, fleet, ns, "settings", fmt.Sprintf("ApplyPolicyFailed: PropagationPolicy %s/own waits for override policy %q, which does not exist", ns, "later"))
	expectEvent(t, fleet, ns, "shared", fmt.Sprintf("ApplyPolicyFailed: ClusterPropagationPolicy wide-%s waits for override policy %q, which does not exist", ns, "later-"+ns))
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
func TestAnEventReportsWhichPolicyWon(t *testing.T) {
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
	expectEvent(t, fleet, ns, "settings", "ApplyPolicySucceed: "+winner+" applies; PropagationPolicy "+ns+"/broad: "+winner+" selects the object by name, this one by kind; "+
		"PropagationPolicy "+ns+"/later: "+winner+" has priority 1, this one 0; ClusterPropagationPolicy wide-"+ns+": "+winner+" is of the object's own namespace")
}
