package aggregate

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// driftedSince returns whether objects of a Work, nil for none, differ from what is desired, and since when.
func driftedSince(work *workv1alpha1.Work) (time.Time, bool) {
	if work == nil {
		return time.Time{}, false
	}
	condition := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkDrifted)
	if condition == nil || condition.Status != metav1.ConditionTrue {
		return time.Time{}, false
	}
	return condition.LastTransitionTime.Time, true
}

// sameDrift returns whether the condition Drifted is as it should be.
func (p Summary) sameDrift(conditions []metav1.Condition) bool {
	present := meta.FindStatusCondition(conditions, workv1alpha2.Drifted)
	if present == nil || len(p.Drifted) == 0 {
		return present == nil && len(p.Drifted) == 0
	}
	wanted := workv1alpha2.DriftedCondition(0, p.Drifted, p.Oldest)
	return present.Status == wanted.Status && present.Reason == wanted.Reason && present.Message == wanted.Message
}

// setDrift writes the condition Drifted, or removes it. Its time is when the oldest difference was found.
func (p Summary) setDrift(conditions *[]metav1.Condition, generation int64) {
	if len(p.Drifted) == 0 {
		meta.RemoveStatusCondition(conditions, workv1alpha2.Drifted)
		return
	}
	meta.SetStatusCondition(conditions, workv1alpha2.DriftedCondition(generation, p.Drifted, p.Oldest))
}
