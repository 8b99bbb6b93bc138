package evict

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
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
	spec := b.BindingSpec()
	wanted := spec.Failover != nil && spec.Failover.Cluster != nil
	if spec.Placement == nil || !wanted && !c.NoExecute {
		return nil
	}
	tolerations := appliedTolerations(b)
	var first *expulsion
	consider := func(taint corev1.Taint, added time.Time, unset time.Duration) {
		tolerated, forever := tolerates(tolerations, &taint, unset)
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
	if failed := failure(cluster); wanted && failed != nil {
		consider(*failed, failed.TimeAdded.Time, c.Grace)
	}
	return first
}

// tolerates returns for how long a taint is tolerated: the shortest time of the tolerations that match it, and unset if none does.
func tolerates(tolerations []corev1.Toleration, taint *corev1.Taint, unset time.Duration) (_ time.Duration, forever bool) {
	shortest, found := time.Duration(-1), false
	for i := range tolerations {
		if !schedulingcorev1.TolerationsTolerateTaint(klog.Background(), tolerations[i:i+1], taint, false) {
			continue
		}
		found = true
		if seconds := tolerations[i].TolerationSeconds; seconds != nil {
			d := time.Duration(max(*seconds, 0)) * time.Second
			if shortest < 0 || d < shortest {
				shortest = d
			}
		}
	}
	switch {
	case !found:
		return unset, false
	case shortest < 0:
		return 0, true
	default:
		return shortest, false
	}
}

// appliedTolerations are those of the placement that the present targets were chosen by, or of the present one if that is not known.
func appliedTolerations(b workv1alpha2.Binding) []corev1.Toleration {
	var applied policyv1alpha1.Placement
	text, ok := b.GetAnnotations()[workv1alpha2.AppliedPlacementAnnotation]
	if ok && json.Unmarshal([]byte(text), &applied) == nil {
		return applied.ClusterTolerations
	}
	return b.BindingSpec().Placement.ClusterTolerations
}

// failure is the taint that a cluster would have if one that is not ready were tainted NoExecute; nil while it is ready, or has not
// reported yet.
func failure(cluster *clusterv1alpha1.Cluster) *corev1.Taint {
	ready := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return nil
	}
	taint := &corev1.Taint{Key: clusterv1alpha1.TaintClusterNotReady, Effect: corev1.TaintEffectNoExecute, TimeAdded: &ready.LastTransitionTime}
	if ready.Status == metav1.ConditionUnknown {
		taint.Key = clusterv1alpha1.TaintClusterUnreachable
	}
	return taint
}

// isFailing returns whether a cluster may have objects leave it.
func isFailing(cluster *clusterv1alpha1.Cluster) bool {
	return failure(cluster) != nil || slices.ContainsFunc(cluster.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
}

// isReady returns whether a cluster is known to be ready.
func isReady(cluster *clusterv1alpha1.Cluster) bool {
	return meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
}

// accepts returns whether the scheduler may choose a cluster for an object.
func accepts(cluster *clusterv1alpha1.Cluster, b workv1alpha2.Binding) bool {
	if !isReady(cluster) || cluster.DeletionTimestamp != nil {
		return false
	}
	for i := range cluster.Spec.Taints {
		taint := &cluster.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule &&
			!schedulingcorev1.TolerationsTolerateTaint(klog.Background(), b.BindingSpec().Placement.ClusterTolerations, taint, false) {
			return false
		}
	}
	return true
}
