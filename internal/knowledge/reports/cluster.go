package reports

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// Cluster bounds, in place, what is reported of a member in the status of its Cluster. Times of conditions are not after now. Kinds that
// are left out show in the condition CompleteAPIEnablements.
func Cluster(status *clusterv1alpha1.ClusterStatus, now time.Time) {
	status.KubernetesVersion = bounds.Cut(status.KubernetesVersion, bounds.NameBytes)
	status.Conditions = conditions(status.Conditions, bounds.MaxClusterConditions, now)
	var omitted string
	if status.APIEnablements, omitted = Enablements(status.APIEnablements); omitted != "" {
		meta.SetStatusCondition(&status.Conditions, clusterv1alpha1.APIEnablementsPartial(omitted))
	}
	Summaries(status)
}

// Summaries bounds, in place, the numbers in the status of a Cluster.
func Summaries(status *clusterv1alpha1.ClusterStatus) {
	if nodes := status.NodeSummary; nodes != nil {
		nodes.TotalNum = min(max(nodes.TotalNum, 0), bounds.MaxNodes)
		nodes.ReadyNum = min(max(nodes.ReadyNum, 0), nodes.TotalNum)
	}
	if sum := status.ResourceSummary; sum != nil {
		for _, list := range []*corev1.ResourceList{&sum.Allocatable, &sum.Allocating, &sum.Allocated} {
			*list = resources(*list)
		}
		sum.AllocatableModelings = sum.AllocatableModelings[:min(len(sum.AllocatableModelings), bounds.MaxGrades)]
		for i := range sum.AllocatableModelings {
			m := &sum.AllocatableModelings[i]
			m.Count = min(max(m.Count, 0), bounds.MaxNodes)
		}
	}
}

// Enablements returns the group versions that fit, and a message if others are left out.
func Enablements(list []clusterv1alpha1.APIEnablement) (kept []clusterv1alpha1.APIEnablement, omitted string) {
	left := bounds.MaxAPIBytes
	fits := func(names ...string) bool {
		const fields = 32 // names of fields
		for _, name := range names {
			if left -= len(name) + fields; len(name) > bounds.NameBytes {
				return false
			}
		}
		return left >= 0
	}
	for i := range list {
		complete := fits(list[i].GroupVersion)
		for _, r := range list[i].Resources {
			complete = complete && fits(r.Name, r.Kind)
		}
		if complete {
			kept = append(kept, list[i])
		}
	}
	if len(kept) == len(list) {
		return list, ""
	}
	return kept, fmt.Sprintf("TooLarge: only %d of %d group versions are listed", len(kept), len(list))
}

// resources bounds the names and the amounts of a list, in place.
func resources(list corev1.ResourceList) corev1.ResourceList {
	for i, name := range slices.Sorted(maps.Keys(list)) {
		amount := list[name]
		switch value := amount.AsApproximateFloat64(); {
		case len(name) > bounds.NameBytes+64 || i >= bounds.MaxResources || math.IsNaN(value): // a prefix of up to 64 bytes, and a name
			delete(list, name)
		case value < 0:
			list[name] = *resource.NewQuantity(0, amount.Format)
		case value > bounds.MaxQuantity:
			list[name] = *resource.NewQuantity(bounds.MaxQuantity, amount.Format)
		}
	}
	return list
}
