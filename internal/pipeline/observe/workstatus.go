package observe

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// finding is what is known about one object of a Work.
type finding struct {
	observed
	status *runtime.RawExtension
	// unapplied is the status as long as the Work is not applied, nil for the same one.
	unapplied *runtime.RawExtension
	health    workv1alpha1.ResourceHealth
	// unanswered is true if the object exists and its health could not be judged.
	unanswered bool
	// finished is the run that the object ended, and removed whether it is gone since: it is not missing then.
	finished string
	removed  bool
	// unhealthyForLong is true once the object has been unhealthy for too long.
	unhealthyForLong bool
}

// findings are the results of observe for a Work of one generation.
type findings struct {
	generation int64
	suspended  bool
	objects    []finding
}

// report is the workstatus.Mutation of observe. It runs after apply's, so it reads whether the Work is applied.
func (f findings) report(_ *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
	status.ManifestStatuses = f.manifestStatuses(isApplied(status.Conditions, f.generation))
	meta.SetStatusCondition(&status.Conditions, f.available())
	meta.SetStatusCondition(&status.Conditions, f.progressing(status.Conditions))
	meta.SetStatusCondition(&status.Conditions, f.degraded())
}

func (f findings) manifestStatuses(applied bool) []workv1alpha1.ManifestStatus {
	statuses := make([]workv1alpha1.ManifestStatus, 0, len(f.objects))
	for _, o := range f.objects {
		if !applied && o.unapplied != nil {
			o.status = o.unapplied
		}
		statuses = append(statuses, workv1alpha1.ManifestStatus{Identifier: o.id, Status: o.status, Health: o.health, Finished: o.finished, Removed: o.removed})
	}
	return statuses
}

func (f findings) available() metav1.Condition {
	missing := f.names(func(o finding) bool { return o.object == nil && !o.removed })
	if len(missing) > 0 {
		return workv1alpha1.NotAvailable(f.generation, "Not on the managed cluster: "+enumerate(missing))
	}
	available := workv1alpha1.Available(f.generation)
	if removed := f.names(func(o finding) bool { return o.removed }); len(removed) > 0 {
		available.Message = "Ran to its end, was removed there and is not made again: " + enumerate(removed)
	}
	return available
}

// progressing ends once for a generation: an object that breaks down after its rollout is degraded, not progressing.
func (f findings) progressing(conditions []metav1.Condition) metav1.Condition {
	if !f.suspended && !isApplied(conditions, f.generation) {
		return applying(f.generation)
	}
	before := meta.FindStatusCondition(conditions, workv1alpha1.WorkProgressing)
	done := before != nil && before.Status == metav1.ConditionFalse && before.ObservedGeneration == f.generation
	unfinished := f.names(func(o finding) bool {
		return !o.removed && (o.object == nil || o.health != workv1alpha1.ResourceHealthy)
	})
	if done || len(unfinished) == 0 {
		return workv1alpha1.Progressed(f.generation)
	}
	return workv1alpha1.Progressing(f.generation, workv1alpha1.RollingOutReason, "Waiting for "+enumerate(unfinished))
}

func isApplied(conditions []metav1.Condition, generation int64) bool {
	applied := meta.FindStatusCondition(conditions, workv1alpha1.WorkApplied)
	return applied != nil && applied.Status == metav1.ConditionTrue && applied.ObservedGeneration >= generation
}

func applying(generation int64) metav1.Condition {
	return workv1alpha1.Progressing(generation, workv1alpha1.ApplyingReason, "Waiting for all manifests to be applied")
}

func (f findings) degraded() metav1.Condition {
	unhealthy := f.names(func(o finding) bool { return o.unhealthyForLong })
	if len(unhealthy) > 0 {
		return workv1alpha1.Degraded(f.generation, "Unhealthy for long: "+enumerate(unhealthy))
	}
	return workv1alpha1.NotDegraded(f.generation)
}

// names lists the manifests of which something is true.
func (f findings) names(is func(finding) bool) []string {
	var names []string
	for _, o := range f.objects {
		if !o.extra && is(o) {
			names = append(names, o.name())
		}
	}
	return names
}

// enumerate joins names, a limited number of them.
func enumerate(names []string) string {
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// waiting is the workstatus.Mutation about a Work whose member does not answer at the moment: all that can be reported is
// whether something is still to be applied.
func waiting(generation int64) func(*workv1alpha1.Work, *workv1alpha1.WorkStatus) {
	return func(_ *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
		if !isApplied(status.Conditions, generation) {
			meta.SetStatusCondition(&status.Conditions, applying(generation))
		}
	}
}
