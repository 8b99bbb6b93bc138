package workstatus

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// complete adds the conditions no one has reported yet, so that a reader finds all five from the first write on.
func complete(work *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
	const waiting = "Waiting for the first report from the managed cluster"
	dispatching := workv1alpha1.Dispatching(work.Generation)
	if s := work.Spec.SuspendDispatching; s != nil && *s {
		dispatching = workv1alpha1.DispatchingSuspended(work.Generation)
	}
	available := workv1alpha1.AvailabilityUnknown(work.Generation, waiting)
	available.Reason = workv1alpha1.ApplyingReason
	for _, initial := range []struct {
		kind string
		set  func()
	}{
		{workv1alpha1.WorkDispatching, func() { meta.SetStatusCondition(&status.Conditions, dispatching) }},
		{workv1alpha1.WorkApplied, func() {
			meta.SetStatusCondition(&status.Conditions, workv1alpha1.NotApplied(work.Generation, "The manifests have not been applied yet"))
		}},
		{workv1alpha1.WorkProgressing, func() {
			meta.SetStatusCondition(&status.Conditions, workv1alpha1.Progressing(work.Generation, workv1alpha1.ApplyingReason, waiting))
		}},
		{workv1alpha1.WorkAvailable, func() { meta.SetStatusCondition(&status.Conditions, available) }},
		{workv1alpha1.WorkDegraded, func() {
			meta.SetStatusCondition(&status.Conditions, workv1alpha1.NotDegraded(work.Generation))
		}},
	} {
		if meta.FindStatusCondition(status.Conditions, initial.kind) == nil {
			initial.set()
		}
	}
}

// same returns whether a Work has the desired status already.
func same(work *workv1alpha1.Work, desired *workv1alpha1.WorkStatus) bool {
	return equality.Semantic.DeepEqual(work.Status.Conditions, desired.Conditions) &&
		sameManifests(work.Status.ManifestStatuses, desired.ManifestStatuses)
}

func sameManifests(a, b []workv1alpha1.ManifestStatus) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Identifier != b[i].Identifier || a[i].Health != b[i].Health || a[i].Finished != b[i].Finished || a[i].Removed != b[i].Removed || !workv1alpha1.SameRaw(a[i].Status, b[i].Status) {
			return false
		}
	}
	return true
}
