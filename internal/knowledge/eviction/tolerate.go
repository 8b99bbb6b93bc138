package eviction

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Tolerates returns for how long a taint is tolerated: the shortest time of the tolerations that match it, and unset if none does. The
// scheduler and the evictor both use it, so that no object is placed where it would be evicted.
func Tolerates(tolerations []corev1.Toleration, taint *corev1.Taint, unset time.Duration) (_ time.Duration, forever bool) {
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

// Failure is the taint that a cluster would have if one that is not ready were tainted NoExecute; nil while it is ready, or has not
// reported yet.
func Failure(cluster *clusterv1alpha1.Cluster) *corev1.Taint {
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
