package profile_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

func onNodes(claim workv1alpha2.NodeClaim) func(*decision.Request) {
	return func(r *decision.Request) {
		r.Requirements = &workv1alpha2.ReplicaRequirements{NodeClaim: &claim}
	}
}

func terms(all ...[]corev1.NodeSelectorRequirement) workv1alpha2.NodeClaim {
	claim := workv1alpha2.NodeClaim{HardNodeAffinity: &corev1.NodeSelector{}}
	for _, expressions := range all {
		claim.HardNodeAffinity.NodeSelectorTerms = append(claim.HardNodeAffinity.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: expressions})
	}
	return claim
}

func must(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func all(requirements ...corev1.NodeSelectorRequirement) []corev1.NodeSelectorRequirement {
	return requirements
}

func TestNodesOfTheWrongPlaceHoldNothing(t *testing.T) {
	// a and b are in the east, c is in the west, d does not say where it is.
	places := fleet(member("a", in("", "east", "1", "2"), available(2)), member("b", in("", "east", "2"), available(2)),
		member("c", in("", "west", "3"), available(2)), member("d", available(2)))
	zone, region := corev1.LabelTopologyZone, corev1.LabelTopologyRegion
	select1 := func(key, value string) workv1alpha2.NodeClaim {
		return workv1alpha2.NodeClaim{NodeSelector: map[string]string{key: value, "disk": "ssd"}}
	}
	byAvailable := placement(dynamic)
	runAll(t, map[string]scenario{
		"Zone":         {reason: "by zone", fleet: places, request: deployment(4, byAvailable, onNodes(select1(zone, "1"))), want: targets("a", 2, "d", 2)},
		"OneOfSeveral": {reason: "one zone of several is enough", fleet: places, request: deployment(6, byAvailable, onNodes(select1(zone, "2"))), want: targets("a", 2, "b", 2, "d", 2)},
		"Region":       {reason: "by region, under its old name", fleet: places, request: deployment(4, byAvailable, onNodes(select1(corev1.LabelFailureDomainBetaRegion, "west"))), want: targets("c", 2, "d", 2)},
		"OtherWords":   {reason: "a zone that no cluster names is the nodes' own word", fleet: places, request: deployment(8, byAvailable, onNodes(select1(zone, "us-east-1a"))), want: targets("a", 2, "b", 2, "c", 2, "d", 2)},
		"OtherLabels":  {reason: "clusters say nothing of disks", fleet: places, request: deployment(8, byAvailable, onNodes(select1("rack", "7"))), want: targets("a", 2, "b", 2, "c", 2, "d", 2)},
		"Affinity": {reason: "either in zone 3, or in the east outside of zone 2", fleet: places, want: targets("a", 2, "c", 2, "d", 2),
			request: deployment(6, byAvailable, onNodes(terms(all(must(zone, corev1.NodeSelectorOpIn, "3")),
				all(must(region, corev1.NodeSelectorOpIn, "east"), must(zone, corev1.NodeSelectorOpNotIn, "2")))))},
		"OpenTerm": {reason: "a term that names no place admits all", fleet: places, want: targets("a", 2, "b", 2, "c", 2, "d", 2),
			request: deployment(8, byAvailable, onNodes(terms(all(must(zone, corev1.NodeSelectorOpIn, "3")), all(must("disk", corev1.NodeSelectorOpExists)))))},
		"Held": {reason: "what is there stays, and nothing is added", fleet: places, request: deployment(4, byAvailable, onNodes(select1(zone, "1")), now("c", 2)), want: targets("a", 1, "c", 2, "d", 1)},
		"CapacityDoesNotMatter": {reason: "copies in full go where they are sent", fleet: places, want: targets("a", 1, "b", 1, "c", 1, "d", 1),
			request: deployment(1, placement(duplicated), onNodes(select1(zone, "1")))},
		"NoPlace": {reason: "and it says so", fleet: fleet(member("c", in("", "west", "3"), available(2)), member("e", in("", "east", "1"), available(2), tainted("down", "", corev1.TaintEffectNoSchedule))),
			request: deployment(1, byAvailable, onNodes(select1(zone, "1"))), failure: workv1alpha2.BindingReasonNoClusterFit,
			message: "0/2 clusters fit: 1 has no nodes in zone 1, 1 has taint down:NoSchedule (in this order: c; e)"},
	})
}
