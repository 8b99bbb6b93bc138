package rebalance

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/flagship-k8s/flagship/api/apps/v1alpha1"
)

// agenda lists what a rebalancer is about, each workload once, in the order of its status: what spec names, with what is known of
// it already, and what spec named once and was done. Of a new generation what failed is tried again.
func agenda(r *appsv1alpha1.WorkloadRebalancer) []appsv1alpha1.ObservedWorkload {
	items := map[appsv1alpha1.ObjectReference]appsv1alpha1.ObservedWorkload{}
	for _, workload := range r.Spec.Workloads {
		items[workload] = appsv1alpha1.ObservedWorkload{Workload: workload}
	}
	for _, observed := range r.Status.ObservedWorkloads {
		_, named := items[observed.Workload]
		if observed.Result == appsv1alpha1.RebalanceSuccessful || named && r.Status.ObservedGeneration == r.Generation {
			items[observed.Workload] = observed
		}
	}
	return slices.SortedFunc(maps.Values(items), func(a, b appsv1alpha1.ObservedWorkload) int {
		x, y := a.Workload, b.Workload
		return cmp.Or(cmp.Compare(x.APIVersion, y.APIVersion), cmp.Compare(x.Kind, y.Kind),
			cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
}

// triggerTime is the time that a request counts from. Workloads that were there from the start are rescheduled as of the creation of
// the rebalancer, so that a repeated request is the same request; those that were added later, as of now.
func triggerTime(r *appsv1alpha1.WorkloadRebalancer, now time.Time) metav1.Time {
	if r.Status.ObservedGeneration == 0 {
		return r.CreationTimestamp
	}
	return metav1.NewTime(now).Rfc3339Copy()
}

// statusOf is the status that follows from the items.
func statusOf(r *appsv1alpha1.WorkloadRebalancer, items []appsv1alpha1.ObservedWorkload, now time.Time) appsv1alpha1.WorkloadRebalancerStatus {
	status := appsv1alpha1.WorkloadRebalancerStatus{ObservedWorkloads: items, ObservedGeneration: r.Generation}
	open := slices.ContainsFunc(items, func(o appsv1alpha1.ObservedWorkload) bool { return o.Result == "" })
	if !open && r.Status.ObservedGeneration == r.Generation {
		status.FinishTime = r.Status.FinishTime
	}
	if !open && status.FinishTime == nil {
		status.FinishTime = ptr.To(metav1.NewTime(now).Rfc3339Copy())
	}
	return status
}

// remaining is how long a finished rebalancer has to live; it is false for one that stays.
func remaining(r *appsv1alpha1.WorkloadRebalancer, now time.Time) (time.Duration, bool) {
	if r.Status.FinishTime == nil || r.Status.ObservedGeneration != r.Generation || r.Spec.TTLSecondsAfterFinished == nil {
		return 0, false
	}
	end := r.Status.FinishTime.Add(time.Duration(*r.Spec.TTLSecondsAfterFinished) * time.Second)
	return max(end.Sub(now), 0), true
}
