package schedule_test

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// member is a cluster that serves apps/v1 Deployment and v1 ConfigMap, has no taint and capacity for 100 replicas of one CPU.
func member(name string, edits ...func(*clusterv1alpha1.Cluster)) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Status.Conditions = []metav1.Condition{{Type: clusterv1alpha1.ClusterConditionCompleteAPIEnablements, Status: metav1.ConditionTrue}}
	c.Status.APIEnablements = []clusterv1alpha1.APIEnablement{
		{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}},
		{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{{Name: "configmaps", Kind: "ConfigMap"}}},
	}
	available(100)(c)
	for _, edit := range edits {
		edit(c)
	}
	return c
}

// available leaves space for n replicas of one CPU.
func available(n int64) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) {
		c.Status.ResourceSummary = &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI), corev1.ResourcePods: resource.MustParse("1100"),
		}}
	}
}

func labelled(key, value string) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) { metav1.SetMetaDataLabel(&c.ObjectMeta, key, value) }
}

func tainted(key, value string, effect corev1.TaintEffect) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) {
		c.Spec.Taints = append(c.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: effect})
	}
}

func targets(pairs ...any) []workv1alpha2.TargetCluster {
	out := []workv1alpha2.TargetCluster{}
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, workv1alpha2.TargetCluster{Name: pairs[i].(string), Replicas: int32(pairs[i+1].(int))})
	}
	return out
}

var oneCPU = &workv1alpha2.ReplicaRequirements{ResourceRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}

func placement(edits ...func(*policyv1alpha1.Placement)) *policyv1alpha1.Placement {
	p := &policyv1alpha1.Placement{}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func strategy(s policyv1alpha1.ReplicaSchedulingStrategy) func(*policyv1alpha1.Placement) {
	return func(p *policyv1alpha1.Placement) { p.ReplicaScheduling = &s }
}

var (
	duplicated = strategy(policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDuplicated})
	dynamic    = strategy(policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType:     policyv1alpha1.ReplicaSchedulingTypeDivided,
		ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
		WeightPreference:          &policyv1alpha1.ClusterPreferences{DynamicWeight: policyv1alpha1.DynamicWeightByAvailableReplicas},
	})
	aggregated = strategy(policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType:     policyv1alpha1.ReplicaSchedulingTypeDivided,
		ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceAggregated,
	})
)

// static divides by weights, each for one cluster by name; without any, equally.
func static(pairs ...any) func(*policyv1alpha1.Placement) {
	s := policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType:     policyv1alpha1.ReplicaSchedulingTypeDivided,
		ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
	}
	for i := 0; i < len(pairs); i += 2 {
		if s.WeightPreference == nil {
			s.WeightPreference = &policyv1alpha1.ClusterPreferences{}
		}
		s.WeightPreference.StaticWeightList = append(s.WeightPreference.StaticWeightList, policyv1alpha1.StaticClusterWeight{
			TargetCluster: policyv1alpha1.ClusterAffinity{ClusterNames: []string{pairs[i].(string)}}, Weight: int64(pairs[i+1].(int)),
		})
	}
	return strategy(s)
}

func spread(field policyv1alpha1.SpreadFieldValue, least, most int) func(*policyv1alpha1.Placement) {
	return func(p *policyv1alpha1.Placement) {
		p.SpreadConstraints = append(p.SpreadConstraints, policyv1alpha1.SpreadConstraint{SpreadByField: field, MinGroups: least, MaxGroups: most})
	}
}

const (
	byCluster  = policyv1alpha1.SpreadByFieldCluster
	byRegion   = policyv1alpha1.SpreadByFieldRegion
	byZone     = policyv1alpha1.SpreadByFieldZone
	byProvider = policyv1alpha1.SpreadByFieldProvider
)

func named(names ...string) policyv1alpha1.ClusterAffinity {
	return policyv1alpha1.ClusterAffinity{ClusterNames: names}
}

func affinity(a policyv1alpha1.ClusterAffinity) func(*policyv1alpha1.Placement) {
	return func(p *policyv1alpha1.Placement) { p.ClusterAffinity = &a }
}

func term(name string, a policyv1alpha1.ClusterAffinity, overflow ...policyv1alpha1.OverflowAffinityTerm) func(*policyv1alpha1.Placement) {
	return func(p *policyv1alpha1.Placement) {
		p.ClusterAffinities = append(p.ClusterAffinities, policyv1alpha1.ClusterAffinityTerm{AffinityName: name, ClusterAffinity: a, OverflowAffinities: overflow})
	}
}
