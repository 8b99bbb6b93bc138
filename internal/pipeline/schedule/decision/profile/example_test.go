package profile_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
)

// Seven replicas are divided by weight among the clusters that serve the kind.
func ExampleSchedule() {
	deployments := []clusterv1alpha1.APIEnablement{{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}}}
	var clusters []*clusterv1alpha1.Cluster
	for name, enablements := range map[string][]clusterv1alpha1.APIEnablement{"member1": deployments, "member2": deployments, "member3": nil} {
		cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		cluster.Status.APIEnablements = enablements
		cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1alpha1.ClusterConditionCompleteAPIEnablements, Status: metav1.ConditionTrue}}
		clusters = append(clusters, cluster)
	}
	result := profile.Schedule(decision.Request{
		Resource: workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
		Replicas: 7,
		Placement: &policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
			ReplicaSchedulingType:     policyv1alpha1.ReplicaSchedulingTypeDivided,
			ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
			WeightPreference: &policyv1alpha1.ClusterPreferences{StaticWeightList: []policyv1alpha1.StaticClusterWeight{
				{TargetCluster: policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}}, Weight: 2},
				{TargetCluster: policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member2", "member3"}}, Weight: 1},
			}},
		}},
	}, decision.NewSnapshot(clusters))
	for _, target := range result.Targets {
		fmt.Println(target.Name, target.Replicas)
	}
	for _, candidate := range result.Attempts[0].Candidates {
		if candidate.Reason != nil {
			fmt.Println(candidate.Cluster.Name, candidate.Reason.One)
		}
	}
	// Output:
	// member1 5
	// member2 2
	// member3 lacks apps/v1 Deployment
}
