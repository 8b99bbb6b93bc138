package summary

import (
	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
)

// grades counts nodes by how much they have free, in the grades of a Cluster's resource models. A node is of the highest
// grade whose least amount it has of every resource the models speak of.
type grades struct {
	models []clusterv1alpha1.ResourceModel
	least  []capacity.Amounts // of each model
	counts []int
}

func newGrades(models []clusterv1alpha1.ResourceModel) *grades {
	g := &grades{models: models, counts: make([]int, len(models))}
	for i := range models {
		least := corev1.ResourceList{}
		for _, r := range models[i].Ranges {
			least[r.Name] = r.Min
		}
		g.least = append(g.least, capacity.AmountsOf(least))
	}
	return g
}

// count puts a node into its grade. A node without a free pod slot is of no grade: nothing can run there, whatever else it
// has, and it is no evidence about other nodes.
func (g *grades) count(free capacity.Amounts) {
	if slots, ok := free.Of(corev1.ResourcePods); ok && slots == 0 {
		return
	}
	for i := len(g.models) - 1; i >= 0; i-- {
		// A resource that the node does not have at all counts as none, so that grade 0, which starts at none, takes every node.
		if free.Reaches(g.least[i]) {
			g.counts[i]++
			return
		}
	}
}

func (g *grades) result() []clusterv1alpha1.AllocatableModeling {
	if len(g.models) == 0 {
		return nil
	}
	out := make([]clusterv1alpha1.AllocatableModeling, len(g.models))
	for i, m := range g.models {
		out[i] = clusterv1alpha1.AllocatableModeling{Grade: m.Grade, Count: g.counts[i]}
	}
	return out
}
