package apply

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// drift returns what sets the condition Drifted of a Work, or removes it, and when that is to be done again without an event, 0 for never.
// Fields that were put back once are in the episodes alone: a condition of them would be two writes for what is over.
func (a *Applier) drift(work *workv1alpha1.Work) (set func(*workv1alpha1.WorkStatus), again time.Duration) {
	key := client.ObjectKeyFromObject(work)
	outcomes := a.objects.Drift.Episodes.Outcomes(key)
	disputed, again := a.objects.Drift.Episodes.Dispute(key)
	reason := ""
	switch {
	case outcomes[fleetv1alpha1.DriftPaused]:
		reason = workv1alpha1.DriftPausedReason
	case outcomes[fleetv1alpha1.DriftReported]:
		reason = workv1alpha1.DriftReportedReason
	case disputed:
		reason = workv1alpha1.DriftDisputedReason
	case outcomes[fleetv1alpha1.DriftLeft]:
		reason = workv1alpha1.DriftLeftReason
	}
	generation := work.Generation
	return func(status *workv1alpha1.WorkStatus) {
		if reason == "" {
			meta.RemoveStatusCondition(&status.Conditions, workv1alpha1.WorkDrifted)
			return
		}
		meta.SetStatusCondition(&status.Conditions, workv1alpha1.Drifted(generation, reason))
	}, again
}
