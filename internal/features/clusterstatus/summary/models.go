package summary

import (
	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// grades counts nodes by how much they have free, in the grades of a Cluster's resource models. A node is of the highest
// grade whose least amount it has of every resource the models speak of.
type grades struct {
	models []clusterv1alpha1.ResourceModel
	counts []int
}

func newGrades(models []clusterv1alpha1.ResourceModel) *grades {
	return &grades{models: models, counts: make([]int, len(models))}
}

// count puts a node into its grade. A node without a free pod slot is of no grade: nothing can run there, whatever else it
// has, and it says nothing about other nodes.
func (g *grades) count(free corev1.ResourceList) {
	if slots, ok := free[corev1.ResourcePods]; ok && slots.Sign() <= 0 {
		return
	}
	for i := len(g.models) - 1; i >= 0; i-- {
		if reaches(free, g.models[i].Ranges) {
			g.counts[i]++
			return
		}
	}
}

// reaches returns whether there is at least the minimum of every range. A resource the node does not have at all counts as
// none, so grade 0, which starts at none, takes every node.
func reaches(free corev1.ResourceList, ranges []clusterv1alpha1.ResourceModelRange) bool {
	for _, r := range ranges {
		left := free[r.Name]
		if left.Cmp(r.Min) < 0 && r.Min.Sign() > 0 {
			return false
		}
	}
	return true
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
