package profile_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
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

// nodesOf are the nodes of a cluster, each with some CPUs free.
func nodesOf(sets ...fleetv1alpha1.NodeSet) *capacity.Nodes {
	return capacity.NodesOf(&fleetv1alpha1.ClusterCapacity{Nodes: sets})
}

func nodeSet(count int32, cpus string, labels map[string]string, taints ...corev1.Taint) fleetv1alpha1.NodeSet {
	return fleetv1alpha1.NodeSet{Labels: labels, Taints: taints, Buckets: []fleetv1alpha1.Bucket{{Count: count, Free: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourcePods: resource.MustParse("110"),
	}}}}
}

func TestNodesThatAreReportedCount(t *testing.T) {
	ssd := map[string]string{"disk": "ssd"}
	own := corev1.Taint{Key: "own", Effect: corev1.TaintEffectNoSchedule}
	// Each cluster has eight CPUs in all; d does not report its nodes.
	known := (&decision.Snapshot{}).With(decision.Change{
		Present: []*clusterv1alpha1.Cluster{member("a", in("", "east", "1"), available(8)), member("b", available(8)), member("c", available(8)), member("d", available(8))},
		Nodes: map[string]*capacity.Nodes{
			"a": nodesOf(nodeSet(1, "4", ssd), nodeSet(1, "4", nil)),
			"b": nodesOf(nodeSet(2, "4", nil)),
			"c": nodesOf(nodeSet(1, "2", ssd), nodeSet(1, "6", ssd, own)),
		},
	})
	byAvailable := placement(dynamic)
	select1 := func(key, value string, tolerations ...corev1.Toleration) workv1alpha2.NodeClaim {
		return workv1alpha2.NodeClaim{NodeSelector: map[string]string{key: value}, Tolerations: tolerations}
	}
	one := func(claim workv1alpha2.NodeClaim) func(*decision.Request) {
		return func(r *decision.Request) {
			r.Requirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: oneCPU.ResourceRequest, NodeClaim: &claim}
		}
	}
	only := func(names ...string) func(*policyv1alpha1.Placement) { return affinity(named(names...)) }
	runAll(t, map[string]scenario{
		"Label": {reason: "four CPUs with the label in a, two in c without the taint, eight anywhere in d", fleet: known,
			request: deployment(14, byAvailable, one(select1("disk", "ssd"))), want: targets("a", 4, "c", 2, "d", 8)},
		"Toleration": {reason: "with the toleration c has eight", fleet: known,
			request: deployment(12, placement(dynamic, only("a", "c")), one(select1("disk", "ssd", corev1.Toleration{Operator: corev1.TolerationOpExists}))), want: targets("a", 4, "c", 8)},
		"Taint": {reason: "a pod without any claim cannot use the node with the taint", fleet: known,
			request: deployment(10, placement(dynamic, only("b", "c"))), want: targets("b", 8, "c", 2)},
		"NoNode": {reason: "a cluster without such nodes is no candidate", fleet: known, failure: workv1alpha2.BindingReasonNoClusterFit,
			request: deployment(1, placement(dynamic, only("b")), one(select1("disk", "ssd"))),
			message: "0/4 clusters fit: 3 are not in clusterAffinity.clusterNames, 1 has no nodes that suit the pods' node selector, node affinity and tolerations (in this order: a, c, d; b)"},
		"RegionOfTheCluster": {reason: "what nodes say of their region counts, not what the cluster says", fleet: known,
			request: deployment(1, placement(dynamic, only("a", "d")), one(select1(corev1.LabelTopologyRegion, "east"))), want: targets("d", 1)},
		"Held": {reason: "what is there stays, and nothing is added", fleet: known,
			request: deployment(4, placement(dynamic, only("a", "b")), one(select1("disk", "ssd")), now("b", 2)), want: targets("a", 2, "b", 2)},
		"Duplicated": {reason: "copies in full go where they are sent", fleet: known,
			request: deployment(1, placement(duplicated, only("a", "b")), one(select1("disk", "ssd"))), want: targets("a", 1, "b", 1)},
		"SetOfComponents": {reason: "only in c both components have nodes", fleet: known, want: []workv1alpha2.TargetCluster{{Name: "c"}},
			request: deployment(0, placement(aggregated, only("a", "b", "c"), spread(byCluster, 1, 1)), func(r *decision.Request) {
				tolerates := select1("disk", "ssd", corev1.Toleration{Key: "own", Operator: corev1.TolerationOpExists})
				plain := select1("disk", "ssd")
				needs := func(claim *workv1alpha2.NodeClaim, cpu string) *workv1alpha2.ComponentReplicaRequirements {
					return &workv1alpha2.ComponentReplicaRequirements{NodeClaim: claim, ResourceRequest: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}
				}
				r.Requirements = nil
				r.Components = []workv1alpha2.Component{
					{Name: "head", Replicas: 1, ReplicaRequirements: needs(&plain, "2")}, {Name: "worker", Replicas: 1, ReplicaRequirements: needs(&tolerates, "5")},
				}
			})},
	})
}
