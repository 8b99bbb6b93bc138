package taintpolicies

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

var (
	earlier = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	now     = metav1.NewTime(earlier.Add(time.Hour))
)

func clusterWith(conditions map[string]metav1.ConditionStatus, taints ...corev1.Taint) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "eu", Labels: map[string]string{"tier": "prod"}}}
	c.Spec.Taints = taints
	for kind, status := range conditions {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: kind, Status: status})
	}
	return c
}

func taintOf(key, value string, effect corev1.TaintEffect, added *metav1.Time) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect, TimeAdded: added}
}

// on is a list of conditions: type, operator, status, type, operator, status...
func on(texts ...string) []policyv1alpha1.MatchCondition {
	var out []policyv1alpha1.MatchCondition
	for i := 0; i < len(texts); i += 3 {
		out = append(out, policyv1alpha1.MatchCondition{ConditionType: texts[i], Operator: policyv1alpha1.MatchConditionOperator(texts[i+1]),
			StatusValues: []metav1.ConditionStatus{metav1.ConditionStatus(texts[i+2])}})
	}
	return out
}

// policies are created one second after the other.
func policies(specs ...policyv1alpha1.ClusterTaintPolicySpec) []policyv1alpha1.ClusterTaintPolicy {
	out := make([]policyv1alpha1.ClusterTaintPolicy, len(specs))
	for i := range specs {
		// The list is in the opposite order of creation.
		out[len(specs)-1-i] = policyv1alpha1.ClusterTaintPolicy{Spec: specs[i], ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("p", i), CreationTimestamp: metav1.NewTime(earlier.Add(time.Duration(i) * time.Second))}}
	}
	return out
}

const noSchedule, noExecute = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute

func TestDesired(t *testing.T) {
	dead := map[string]metav1.ConditionStatus{"Ready": "False"}
	spec := func(adds, removes []policyv1alpha1.MatchCondition, taints ...policyv1alpha1.Taint) policyv1alpha1.ClusterTaintPolicySpec {
		return policyv1alpha1.ClusterTaintPolicySpec{AddOnConditions: adds, RemoveOnConditions: removes, Taints: taints}
	}
	a := policyv1alpha1.Taint{Key: "a", Value: "1", Effect: noSchedule}
	isDead, isAlive := on("Ready", "In", "False"), on("Ready", "In", "True")
	user := taintOf("user", "x", noSchedule, nil)
	tests := map[string]struct {
		cluster  *clusterv1alpha1.Cluster
		policies []policyv1alpha1.ClusterTaintPolicy
		want     []corev1.Taint
	}{
		"the condition matches": {clusterWith(dead, user), policies(spec(isDead, isAlive, a, policyv1alpha1.Taint{Key: "a", Effect: noExecute})),
			[]corev1.Taint{user, taintOf("a", "1", noSchedule, &now), taintOf("a", "", noExecute, &now)}},
		"it does not": {clusterWith(map[string]metav1.ConditionStatus{"Ready": "Unknown"}, taintOf("a", "1", noSchedule, &earlier)), policies(spec(isDead, isAlive, a)),
			[]corev1.Taint{taintOf("a", "1", noSchedule, &earlier)}},
		"it matches the removal": {clusterWith(map[string]metav1.ConditionStatus{"Ready": "True"}, taintOf("a", "9", noSchedule, nil), taintOf("a", "", noExecute, nil)),
			policies(spec(isDead, isAlive, a)), []corev1.Taint{taintOf("a", "", noExecute, nil)}},
		"all conditions have to match":                    {clusterWith(dead), policies(spec(on("Ready", "In", "False", "Net", "In", "False"), nil, a)), nil},
		"a condition that is absent does not match NotIn": {clusterWith(dead), policies(spec(on("Net", "NotIn", "True"), nil, a)), nil},
		"one that is there does": {clusterWith(dead), policies(spec(on("Ready", "NotIn", "True"), nil, a)),
			[]corev1.Taint{taintOf("a", "1", noSchedule, &now)}},
		"no conditions never match": {clusterWith(dead, taintOf("b", "", noSchedule, nil)), policies(spec(nil, nil, a, policyv1alpha1.Taint{Key: "b", Effect: noSchedule})),
			[]corev1.Taint{taintOf("b", "", noSchedule, nil)}},
		"a taint that is there keeps its time and takes the value": {clusterWith(dead, taintOf("a", "0", noSchedule, &earlier)), policies(spec(isDead, nil, a)),
			[]corev1.Taint{taintOf("a", "1", noSchedule, &earlier)}},
		"within a policy removal counts": {clusterWith(dead), policies(spec(isDead, isDead, a)), nil},
		"of two policies the newer one counts": {clusterWith(dead), policies(spec(nil, isDead, a), spec(isDead, nil, a)),
			[]corev1.Taint{taintOf("a", "1", noSchedule, &now)}},
		"also if it removes": {clusterWith(dead, taintOf("a", "1", noSchedule, &earlier)), policies(spec(isDead, nil, a), spec(nil, isDead, a)), nil},
		"and if they differ in the value": {clusterWith(dead, taintOf("a", "2", noSchedule, &earlier)),
			policies(spec(isDead, nil, a), spec(isDead, nil, policyv1alpha1.Taint{Key: "a", Value: "2", Effect: noSchedule})),
			[]corev1.Taint{taintOf("a", "2", noSchedule, &earlier)}},
		"taints of the Ready condition belong to it": {
			clusterWith(dead, taintOf(clusterv1alpha1.TaintClusterNotReady, "", noSchedule, nil)),
			policies(spec(nil, isDead, policyv1alpha1.Taint{Key: clusterv1alpha1.TaintClusterNotReady, Effect: noSchedule}),
				spec(isDead, nil, policyv1alpha1.Taint{Key: clusterv1alpha1.TaintClusterNotReady, Effect: noExecute})),
			[]corev1.Taint{taintOf(clusterv1alpha1.TaintClusterNotReady, "", noSchedule, nil), taintOf(clusterv1alpha1.TaintClusterNotReady, "", noExecute, &now)}},
		"another cluster": {clusterWith(dead), policies(policyv1alpha1.ClusterTaintPolicySpec{
			TargetClusters: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"us"}}, AddOnConditions: isDead, Taints: []policyv1alpha1.Taint{a}}), nil},
		"this cluster, by its labels": {clusterWith(dead), policies(policyv1alpha1.ClusterTaintPolicySpec{
			TargetClusters:  &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "prod"}}},
			AddOnConditions: isDead, Taints: []policyv1alpha1.Taint{a}}), []corev1.Taint{taintOf("a", "1", noSchedule, &now)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := desired(test.cluster, test.policies, now)
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Errorf("error %v, taints (-want +got):\n%s", err, diff)
			}
			test.cluster.Spec.Taints = got
			again, err := desired(test.cluster, test.policies, metav1.NewTime(now.Add(time.Hour)))
			if diff := cmp.Diff(got, again); diff != "" || err != nil {
				t.Errorf("a second evaluation changes something: error %v\n%s", err, diff)
			}
		})
	}
}

func TestAPolicyThatCannotBeReadDoesNotStopOthers(t *testing.T) {
	bad := policyv1alpha1.ClusterTaintPolicySpec{TargetClusters: &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}}
	good := policyv1alpha1.ClusterTaintPolicySpec{AddOnConditions: on("Ready", "In", "True"), Taints: []policyv1alpha1.Taint{{Key: "a", Effect: noSchedule}}}
	got, err := desired(clusterWith(map[string]metav1.ConditionStatus{"Ready": "True"}), policies(bad, good), now)
	if err == nil || len(got) != 1 {
		t.Errorf("taints %v, error %v", got, err)
	}
}

func TestReconcileWritesDifferencesOnly(t *testing.T) {
	cluster := clusterWith(map[string]metav1.ConditionStatus{"Ready": "False"})
	policy := policies(policyv1alpha1.ClusterTaintPolicySpec{AddOnConditions: on("Ready", "In", "False"), RemoveOnConditions: on("Ready", "In", "True"),
		Taints: []policyv1alpha1.Taint{{Key: "a", Effect: noSchedule}}})
	hub := fleettest.InMemory(t, nil, cluster, &policy[0]).Client
	var published []events.Event
	r := &tainter{Deps{Client: hub, Clock: testingclock.NewFakePassiveClock(now.Time),
		Events: events.RecorderFunc(func(e events.Event) { published = append(published, e) })}}
	version := func() string {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cluster)}); err != nil {
			t.Fatal(err)
		}
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			t.Fatal(err)
		}
		return cluster.ResourceVersion
	}
	first := version()
	if len(cluster.Spec.Taints) != 1 || len(published) != 1 || published[0].Reason != events.TaintClusterSucceed || published[0].Object.Kind != "Cluster" {
		t.Errorf("taints %v, events %v", cluster.Spec.Taints, published)
	}
	if version() != first || len(published) != 1 {
		t.Errorf("a second reconcile writes; events %v", published)
	}
	if err := hub.Delete(t.Context(), &policy[0]); err != nil {
		t.Fatal(err)
	}
	if version() != first {
		t.Error("the deletion of a policy changes its taints")
	}
}

func TestSetupNeedsItsDependencies(t *testing.T) {
	var mgr ctrl.Manager
	if err := Setup(mgr, Deps{}); err == nil {
		t.Error("no error without dependencies")
	}
}
