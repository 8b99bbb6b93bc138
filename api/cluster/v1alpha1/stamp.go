package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StampTaints notes when a NoExecute taint was set: tolerations count from there. A writer that leaves the time out keeps the one there
// was.
func StampTaints(taints, before []corev1.Taint, now metav1.Time) {
	for i := range taints {
		taint := &taints[i]
		if taint.Effect != corev1.TaintEffectNoExecute || taint.TimeAdded != nil {
			continue
		}
		taint.TimeAdded = &now
		at := slices.IndexFunc(before, func(old corev1.Taint) bool { return old.MatchTaint(taint) })
		if at >= 0 && before[at].TimeAdded != nil {
			taint.TimeAdded = before[at].TimeAdded
		}
	}
}
