package evict

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
)

// expulsion is why and when an object has to leave a cluster.
type expulsion struct {
	taint corev1.Taint
	at    time.Time
}

// expels returns the first reason for an object to leave a cluster; nil if there is none. Taints count if the policy has cluster
// failover, or by the flag. For a policy with cluster failover, a cluster that is not ready counts as tainted NoExecute since then,
// and is tolerated for the grace time if the policy has no toleration for it.
func (c Config) expels(cluster *clusterv1alpha1.Cluster, b workv1alpha2.Binding) *expulsion {
	return c.expelsTolerating(cluster, b, appliedTolerations)
}

// expelsTolerating is expels with the tolerations that the function returns.
func (c Config) expelsTolerating(cluster *clusterv1alpha1.Cluster, b workv1alpha2.Binding, of func(workv1alpha2.Binding) []corev1.Toleration) *expulsion {
	spec := b.BindingSpec()
	wanted := spec.Failover != nil && spec.Failover.Cluster != nil
	if spec.Placement == nil || !wanted && !c.NoExecute {
		return nil
	}
	tolerations := of(b)
	var first *expulsion
	consider := func(taint corev1.Taint, added time.Time, unset time.Duration) {
		tolerated, forever := eviction.Tolerates(tolerations, &taint, unset)
		if at := added.Add(tolerated); !forever && (first == nil || at.Before(first.at)) {
			first = &expulsion{taint, at}
		}
	}
	for _, taint := range cluster.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoExecute {
			var added time.Time // admission sets it
			if taint.TimeAdded != nil {
				added = taint.TimeAdded.Time
			}
			consider(taint, added, 0)
		}
	}
	if failed := eviction.Failure(cluster); wanted && failed != nil {
		consider(*failed, failed.TimeAdded.Time, c.Grace)
	}
	return first
}

// isUndecided returns whether the scheduler has yet to decide by the present placement, which may tolerate what the last one did not, or
// select other clusters. A scheduler that does not record by which placement it decided is not waited for.
func isUndecided(b workv1alpha2.Binding) bool {
	var applied policyv1alpha1.Placement
	text, ok := b.GetAnnotations()[workv1alpha2.AppliedPlacementAnnotation]
	return ok && b.BindingStatus().SchedulerObservedGeneration < b.GetGeneration() && json.Unmarshal([]byte(text), &applied) == nil &&
		!equality.Semantic.DeepEqual(&applied, b.BindingSpec().Placement)
}

// appliedTolerations are those of the placement that the present targets were chosen by, or of the present one if that is not known.
func appliedTolerations(b workv1alpha2.Binding) []corev1.Toleration {
	var applied policyv1alpha1.Placement
	text, ok := b.GetAnnotations()[workv1alpha2.AppliedPlacementAnnotation]
	if ok && json.Unmarshal([]byte(text), &applied) == nil {
		return applied.ClusterTolerations
	}
	return presentTolerations(b)
}

func presentTolerations(b workv1alpha2.Binding) []corev1.Toleration {
	return b.BindingSpec().Placement.ClusterTolerations
}

// isFailing returns whether a cluster may have objects leave it.
func isFailing(cluster *clusterv1alpha1.Cluster) bool {
	return eviction.Failure(cluster) != nil || slices.ContainsFunc(cluster.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
}

// isReady returns whether a cluster is known to be ready.
func isReady(cluster *clusterv1alpha1.Cluster) bool {
	return meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
}

// accepts returns whether an object may return to a cluster. Where evictions count, a taint NoExecute that is tolerated for a while does not
// let it return: it would be evicted again.
func (c Config) accepts(cluster *clusterv1alpha1.Cluster, b workv1alpha2.Binding) bool {
	if !isReady(cluster) || cluster.DeletionTimestamp != nil || c.expelsTolerating(cluster, b, presentTolerations) != nil {
		return false
	}
	for i := range cluster.Spec.Taints {
		taint := &cluster.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule &&
			!schedulingcorev1.TolerationsTolerateTaint(klog.Background(), presentTolerations(b), taint, false) {
			return false
		}
	}
	return true
}
