package placement_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	remedyv1alpha1 "github.com/flagship-k8s/flagship/api/remedy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestConditionsTaintClusters sets a condition of a cluster as a detector would: a ClusterTaintPolicy taints the cluster, so that
// nothing more is scheduled there, and a Remedy reports its action. Both end with the condition.
func TestConditionsTaintClusters(t *testing.T) {
	fleet, ns := start(t)
	clusters, all := island(t, fleet, 100, 100)
	sick, well := clusters[0], clusters[1]
	on := func(status metav1.ConditionStatus) []policyv1alpha1.MatchCondition {
		return []policyv1alpha1.MatchCondition{{ConditionType: clusterv1alpha1.ServiceDomainNameResolutionReady, Operator: policyv1alpha1.MatchConditionOpIn,
			StatusValues: []metav1.ConditionStatus{status}}}
	}
	policy := &policyv1alpha1.ClusterTaintPolicy{ObjectMeta: metav1.ObjectMeta{Name: "dns"}, Spec: policyv1alpha1.ClusterTaintPolicySpec{
		TargetClusters: all, AddOnConditions: on(metav1.ConditionFalse), RemoveOnConditions: on(metav1.ConditionTrue),
		Taints: []policyv1alpha1.Taint{{Key: "example.com/dns", Value: "broken", Effect: corev1.TaintEffectNoSchedule}}}}
	evicting := policy.DeepCopy()
	evicting.Name, evicting.Spec.Taints[0].Effect = "evicts", corev1.TaintEffectNoExecute
	if err := fleet.Hub.Create(t.Context(), evicting); err == nil || !strings.Contains(err.Error(), "--allow-no-execute-taint-policy") {
		t.Errorf("a policy that evicts is answered with %v", err)
	}
	match := remedyv1alpha1.DecisionMatch{ClusterConditionMatch: &remedyv1alpha1.ClusterConditionRequirement{
		ConditionType: clusterv1alpha1.ServiceDomainNameResolutionReady, Operator: remedyv1alpha1.ClusterConditionEqual, ConditionStatus: "False"}}
	remedy := &remedyv1alpha1.Remedy{ObjectMeta: metav1.ObjectMeta{Name: "dns"}, Spec: remedyv1alpha1.RemedySpec{
		DecisionMatches: []remedyv1alpha1.DecisionMatch{match}, Actions: []remedyv1alpha1.RemedyAction{remedyv1alpha1.TrafficControl}}}
	fleettest.Create(t, fleet.Hub, policy, remedy)

	detect(t, fleet, sick, metav1.ConditionFalse)
	fleettest.ExpectEventually(t, fleet.Hub, named(sick), conditioned("broken", "TrafficControl"))
	settings := fleettest.ConfigMap(ns, "settings", nil)
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", policyv1alpha1.Placement{ClusterAffinity: all}, settings))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed(well))

	detect(t, fleet, sick, metav1.ConditionTrue)
	fleettest.ExpectEventually(t, fleet.Hub, named(sick), conditioned(""))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed(sick, well))

	detect(t, fleet, sick, metav1.ConditionFalse)
	fleettest.ExpectEventually(t, fleet.Hub, named(sick), conditioned("broken", "TrafficControl"))
	fleettest.Delete(t, fleet.Hub, policy, remedy)
	fleettest.ExpectGone(t, fleet.Hub, policy)
	fleettest.ExpectEventually(t, fleet.Hub, named(sick), conditioned("broken")) // taints outlive their policy, actions do not
}

func named(cluster string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
}

// detect reports a condition of a cluster.
func detect(t *testing.T, fleet *fleettest.Fleet, cluster string, status metav1.ConditionStatus) {
	t.Helper()
	report(t, fleet, cluster, func(c *clusterv1alpha1.Cluster) {
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
			Type: clusterv1alpha1.ServiceDomainNameResolutionReady, Status: status, Reason: "Detected"})
	})
}

// conditioned is the condition of a cluster that has the taint example.com/dns of a value, none for "", and these actions.
func conditioned(value string, actions ...string) func(*clusterv1alpha1.Cluster) error {
	return func(c *clusterv1alpha1.Cluster) error {
		at := slices.IndexFunc(c.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/dns" })
		switch {
		case (at >= 0) != (value != "") || at >= 0 && c.Spec.Taints[at].Value != value:
			return fmt.Errorf("its taints are %v", c.Spec.Taints)
		case at >= 0 && c.Spec.Taints[at].TimeAdded == nil:
			return errors.New("the taint has no time")
		case !slices.Equal(c.Status.RemedyActions, actions):
			return fmt.Errorf("its actions are %v", c.Status.RemedyActions)
		}
		return nil
	}
}
