package capacity

import (
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

// worst is the largest number of units that pods of others can keep off nodes, found by trying every distribution.
func worst(nodes [][2]int64, pods int64) int64 {
	if len(nodes) == 0 {
		return 0
	}
	places, units := nodes[0][0], min(nodes[0][0], nodes[0][1])
	var most int64
	for here := range min(pods, places) + 1 {
		most = max(most, max(0, here-(places-units))+worst(nodes[1:], pods-here))
	}
	return most
}

// What pods of others take is never less than the worst case, and nothing where every node has places to spare.
func TestPodsOfOthersOnNodes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	demand := DemandOf(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")})
	for range 2000 {
		var nodes [][2]int64
		var sets []fleetv1alpha1.NodeSet
		for range 1 + random.IntN(3) {
			places, cpus := int64(random.IntN(6)), int64(random.IntN(6))
			nodes = append(nodes, [2]int64{places, cpus})
			sets = append(sets, fleetv1alpha1.NodeSet{Buckets: []fleetv1alpha1.Bucket{{Count: 1, Free: corev1.ResourceList{
				corev1.ResourcePods: *resource.NewQuantity(places, resource.DecimalSI), corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI),
			}}}})
		}
		pods := int64(random.IntN(12))
		n := NodesOf(&fleetv1alpha1.ClusterCapacity{Nodes: sets})
		lost, want := n.lost(&demand, pods), worst(nodes, pods)
		if lost < want || lost > pods {
			t.Fatalf("%d pods on nodes with places and CPUs %v: %d units lost, and %d in the worst case", pods, nodes, lost, want)
		}
		spare := true
		for _, node := range nodes {
			spare = spare && (node[0]-node[1] >= pods || node[1] == 0)
		}
		if spare && lost > 0 {
			t.Fatalf("%d pods on nodes with places and CPUs %v: %d units lost, though every node has places to spare", pods, nodes, lost)
		}
	}
}
