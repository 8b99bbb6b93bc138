package reasons_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/reasons"
)

func cluster(name, cpu string, taints ...corev1.Taint) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Taints = taints
	c.Status.Conditions = []metav1.Condition{{Type: clusterv1alpha1.ClusterConditionCompleteAPIEnablements, Status: metav1.ConditionTrue}}
	c.Status.APIEnablements = []clusterv1alpha1.APIEnablement{{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Kind: "Deployment"}}}}
	c.Status.ResourceSummary = &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse("110"),
	}}
	return c
}

func TestCandidates(t *testing.T) {
	snapshot := decision.NewSnapshot([]*clusterv1alpha1.Cluster{
		cluster("big", "8"), cluster("full", "1"), cluster("small", "2"),
		cluster("tainted", "8", corev1.Taint{Key: "env", Value: "test", Effect: corev1.TaintEffectNoSchedule}),
	})
	byAvailable := &policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceAggregated,
	}}
	request := func(replicas int32, p *policyv1alpha1.Placement) decision.Request {
		return decision.Request{
			Resource: workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment"}, Placement: p, Replicas: replicas,
			Requirements: &workv1alpha2.ReplicaRequirements{ResourceRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}},
		}
	}
	one := &policyv1alpha1.Placement{SpreadConstraints: []policyv1alpha1.SpreadConstraint{{SpreadByField: policyv1alpha1.SpreadByFieldCluster, MinGroups: 1, MaxGroups: 1}}}
	const taint = "tainted TaintToleration: has taint env=test:NoSchedule (tolerate env=test:NoSchedule)"
	for name, tc := range map[string]struct {
		request decision.Request
		only    string
		want    []string
	}{
		"by available replicas": {request(3, byAvailable), "", []string{
			"big 3 of 4", "full NoReplicas: no replica fits (1 cpu more)", "small NoReplicas: fits, and its share of the replicas is none ()", taint,
		}},
		"too many": {request(30, byAvailable), "", []string{
			"big NotSelected: fits, and the placement as a whole failed ()", "full NoReplicas: no replica fits (1 cpu more)",
			"small NotSelected: fits, and the placement as a whole failed ()", taint,
		}},
		"one cluster": {request(1, one), "tainted", []string{taint}},
		"selected": {request(1, one), "small", []string{
			"small NotSelected: fits, and is not among the clusters that the spread constraints select ()",
		}},
	} {
		candidates, err := reasons.Candidates(profile.Default(), tc.request, snapshot, tc.only)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range candidates {
			line := fmt.Sprintf("%s %s: %s (%s)", c.Name, c.Filter, strings.Join(c.Dropped, ", "), strings.Join(c.Remedies, ", "))
			if c.Filter == "" {
				line = fmt.Sprintf("%s %d of %d", c.Name, ptr.Deref(c.Replicas, 0), ptr.Deref(c.Available, 0))
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
