package capacity

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// podsPerNode is how many pods each node of a resource model is assumed to hold.
const podsPerNode = 110

// Headroom is what one cluster has left, read from its status once. It does not change after HeadroomOf. The zero value holds
// nothing, as does a cluster that has not reported resources yet.
type Headroom struct {
	pods   int64
	left   Amounts
	grades []grade
	// nodes is nil for a cluster of which they are not known.
	nodes *Nodes
}

// On returns r with the nodes of the cluster; nil if they are not known.
func (r Headroom) On(nodes *Nodes) Headroom {
	r.nodes = nodes
	return r
}

// grade is a number of nodes that each have at least min left.
type grade struct {
	nodes int64
	min   Amounts
}

// HeadroomOf reads what cluster has left: allocatable less allocated less allocating, and the nodes of each grade of its resource
// models.
func HeadroomOf(cluster *clusterv1alpha1.Cluster) Headroom {
	summary := cluster.Status.ResourceSummary
	if summary == nil {
		return Headroom{}
	}
	var r Headroom
	for name, quantity := range summary.Allocatable {
		left := count(name, quantity)
		if taken, ok := summary.Allocated[name]; ok {
			left -= count(name, taken)
		}
		if taken, ok := summary.Allocating[name]; ok {
			left -= count(name, taken)
		}
		if name == corev1.ResourcePods {
			r.pods = left
			continue
		}
		r.left = append(r.left, amount{name, left})
	}
	r.left.sort()
	r.grades = gradesOf(cluster)
	return r
}

func gradesOf(cluster *clusterv1alpha1.Cluster) []grade {
	var out []grade
	for _, counted := range cluster.Status.ResourceSummary.AllocatableModelings {
		i := slices.IndexFunc(cluster.Spec.ResourceModels, func(m clusterv1alpha1.ResourceModel) bool {
			return m.Grade == counted.Grade
		})
		if i < 0 {
			continue
		}
		g := grade{nodes: int64(min(max(counted.Count, 0), maxNodes))}
		for _, r := range cluster.Spec.ResourceModels[i].Ranges {
			g.min = append(g.min, amount{r.Name, count(r.Name, r.Min)})
		}
		g.min.sort()
		out = append(out, g)
	}
	return out
}

// Fit returns how many more units of d the cluster holds when taken is already reserved for others: the least of several estimates.
// Pods always count. Resources in the cluster's models are fitted node by node, each node having the minimum of its grade; others are
// divided out of the cluster's total. Where the nodes are known, only those count that the pods can run on, each with what it has free;
// since it is not known on which nodes reservations are, they are subtracted from these. The ResourceQuotas of the namespace count, too.
func (r *Headroom) Fit(d *Demand, taken *Usage) int32 {
	fit := (r.pods - taken.pods) / d.pods()
	if fit <= 0 {
		return 0
	}
	byModel := len(r.grades) > 0 && !d.spread
	modelled, devices := false, len(d.choices) > 0
	for i := range d.items {
		item := &d.items[i]
		if byModel && r.models(item.name) {
			modelled = true
			continue
		}
		if clusterv1alpha1.CountsDevices(item.name) {
			devices = true
			continue
		}
		left, ok := r.left.Of(item.name)
		if !ok {
			return 0
		}
		reserved, _ := taken.items.Of(item.name)
		fit = min(fit, (left-reserved)/item.value)
	}
	if modelled {
		fit = min(fit, r.fitGrades(d)-reservedUnits(d, taken, r.models))
	}
	if r.nodes != nil && fit > 0 {
		reserved := reservedUnits(d, taken, func(corev1.ResourceName) bool { return true })
		reserved = max(reserved, r.nodes.lost(d, taken.pods))
		fit = min(fit, r.nodes.fit(d, fit+reserved)-reserved)
		fit = r.nodes.withinQuotas(d, taken, fit)
	}
	if devices {
		fit = r.fitDevices(d, taken, fit)
	}
	return int32(min(max(fit, 0), math.MaxInt32))
}

func (r *Headroom) models(name corev1.ResourceName) bool {
	_, ok := r.grades[0].min.Of(name)
	return ok
}

// fitGrades counts the units that fit node by node, by the resources that are modelled.
func (r *Headroom) fitGrades(d *Demand) int64 {
	var total int64
	for i := range r.grades {
		g := &r.grades[i]
		if g.nodes == 0 {
			continue
		}
		each := int64(podsPerNode)
		for _, item := range d.items {
			if least, ok := g.min.Of(item.name); ok {
				each = min(each, least/item.value)
			}
		}
		total += g.nodes * each
	}
	return total
}

// reservedUnits is how many units of d the reservations amount to, by the resource that they take most of.
func reservedUnits(d *Demand, taken *Usage, counts func(corev1.ResourceName) bool) int64 {
	var units int64
	for _, item := range d.items {
		if reserved, ok := taken.items.Of(item.name); ok && counts(item.name) {
			units = max(units, (reserved+item.value-1)/item.value)
		}
	}
	return units
}

// HasNodes returns whether the nodes of the cluster are known.
func (r *Headroom) HasNodes() bool { return r.nodes != nil }

// Admits returns whether the nodes of the cluster are not known, or each pod of a unit of d can run on some, however much they have free.
func (r *Headroom) Admits(d *Demand) bool { return r.nodes == nil || r.nodes.admits(d) }

// Exceeds is true if r has more of anything than before had.
func (r *Headroom) Exceeds(before *Headroom) bool {
	if r.pods > before.pods || len(r.grades) > len(before.grades) {
		return true
	}
	for _, a := range r.left {
		if had, ok := before.left.Of(a.name); !ok || a.value > had {
			return true
		}
	}
	for i := range r.grades {
		if r.grades[i].nodes > before.grades[i].nodes {
			return true
		}
	}
	switch {
	case r.nodes == before.nodes || before.nodes == nil:
		return false // the nodes only lessen what the rest allows
	case r.nodes == nil:
		return true
	}
	return r.nodes.exceeds(before.nodes) || r.nodes.quotasExceed(before.nodes)
}
