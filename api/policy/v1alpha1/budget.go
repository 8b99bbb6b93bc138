package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// What the selectors of one policy may have in all. A selector by labels is compared with each object of its kind, and an affinity with each
// cluster, again with each change: one of 1.5 MB has 200,000 values, and a thousand clusters take seconds of a processor for it.
const (
	maxLabelTerms    = 1_000
	maxAffinityTerms = 50_000
)

// termsOf is how much a label selector compares: its labels, its expressions and their values.
func termsOf(selector *metav1.LabelSelector) int {
	if selector == nil {
		return 0
	}
	terms := len(selector.MatchLabels) + len(selector.MatchExpressions)
	for _, expression := range selector.MatchExpressions {
		terms += len(expression.Values)
	}
	return terms
}

// termsOfAffinity is how much an affinity, which may be nil, compares.
func termsOfAffinity(affinity *ClusterAffinity) int {
	if affinity == nil {
		return 0
	}
	terms := termsOf(affinity.LabelSelector) + len(affinity.ClusterNames) + len(affinity.ExcludeClusters)
	if affinity.FieldSelector != nil {
		for _, expression := range affinity.FieldSelector.MatchExpressions {
			terms += 1 + len(expression.Values)
		}
	}
	return terms
}

// termsOfPlacement is how much the affinities of a placement compare.
func termsOfPlacement(placement *Placement) int {
	terms := termsOfAffinity(placement.ClusterAffinity)
	for i := range placement.ClusterAffinities {
		term := &placement.ClusterAffinities[i]
		terms += termsOfAffinity(&term.ClusterAffinity)
		for j := range term.OverflowAffinities {
			terms += termsOfAffinity(&term.OverflowAffinities[j].ClusterAffinity)
		}
	}
	if strategy := placement.ReplicaScheduling; strategy != nil && strategy.WeightPreference != nil {
		for i := range strategy.WeightPreference.StaticWeightList {
			terms += termsOfAffinity(&strategy.WeightPreference.StaticWeightList[i].TargetCluster)
		}
	}
	return terms
}
