package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member/schemas"
	"github.com/flagship-k8s/flagship/internal/clients/workstatus"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/services"
)

const (
	// grace is how long failures that pass by themselves are kept from the user.
	grace = time.Second
	// minRetryPause is the shortest pause before what does not pass by itself is tried again.
	minRetryPause = time.Second
	// observePause is how often an object is read that is only observed and is not managed: no watch shows it.
	observePause = time.Minute
	// maxMessage is below the limit on a condition's message.
	maxMessage = 8 << 10
)

// setOutcome reports what came of a Work's manifests, and returns when to try again what failed: soon if it is expected to pass,
// else after as long as it has been failing.
func (a *Applier) setOutcome(work *workv1alpha1.Work, total int, results []outcome) (time.Duration, error) {
	key := client.ObjectKeyFromObject(work)
	complaints, failures, lasting := complaintsOf(results)
	if !objects.IsBraked(errors.Join(failures...)) {
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(key.Namespace)
		a.brake.Clear(cluster, key)
	}
	if len(failures) == 0 {
		a.troubles.End(key)
		a.setDropped(work, results)
		for _, o := range results {
			if o.ended {
				a.events.Publish(events.Normal(events.Work(work), events.FinishedObjectRemoved, o.what+" ran to its end and was removed in the cluster: it is not made again"))
			}
		}
		if work.Generation == 1 && !meta.IsStatusConditionTrue(work.Status.Conditions, workv1alpha1.WorkApplied) {
			a.arrival.Observe(a.clock.Since(work.CreationTimestamp.Time).Seconds())
		}
		setDrift, again := a.drift(work)
		a.report.Update(work, workstatus.Apply, func(_ *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
			setDrift(status)
			meta.SetStatusCondition(&status.Conditions, workv1alpha1.Dispatching(work.Generation))
			meta.SetStatusCondition(&status.Conditions, appliedCondition(work.Generation, status.Conditions, results))
		})
		a.events.Publish(events.Success(events.Work(work), events.WorkDispatching, workv1alpha1.DispatchingMessage))
		a.events.Publish(events.Success(events.Work(work), events.SyncSucceed, workv1alpha1.ManifestsAppliedMessage(total)))
		if slices.ContainsFunc(results, func(o outcome) bool { return o.unconfirmed }) {
			return objects.ConfirmPause, nil
		}
		if slices.ContainsFunc(results, func(o outcome) bool { return o.unknownFields }) {
			return schemas.Pause, nil // the member may be upgraded
		}
		if slices.ContainsFunc(results, func(o outcome) bool { return o.unwatched }) {
			return observePause, nil
		}
		return again, nil
	}
	err := errors.Join(failures...)
	if objects.Unavailable(err) && appliedAt(work, work.Generation) {
		return 0, err // the member cannot be reached; its objects are as they were
	}
	if objects.Only(objects.IsDispatchingHeld, failures) {
		a.setDispatchingHeld(work)
		return 0, nil // the end of the hold enqueues the Work
	}
	failing := a.troubles.Since(key, a.clock.Now())
	if objects.IsBraked(err) {
		a.setBraked(work, err)
		return backoff.Longest, nil // the release of the brake enqueues the Work sooner
	}
	message := fmt.Sprintf("Failed to apply all manifests (%d/%d): %s", max(total-len(complaints), 0), len(work.Spec.Workload.Manifests), strings.Join(complaints, "; "))
	due := lasting || failing >= grace
	switch {
	case objects.IsHeld(err) && total == 1 && due:
		a.setNotApplied(work, workv1alpha1.Held(work.Generation, complaints[0]))
	case objects.Only(objects.IsForbidden, failures):
		a.setNotApplied(work, workv1alpha1.Forbidden(work.Generation, message))
	case objects.Only(services.IsFamilyUnsupported, failures):
		a.setNotApplied(work, workv1alpha1.FamilyUnsupported(work.Generation, message))
	case objects.Only(services.IsTakenPorts, failures):
		a.setNotApplied(work, workv1alpha1.NodePortTaken(work.Generation, message))
	case due:
		a.setNotApplied(work, workv1alpha1.NotApplied(work.Generation, message))
	}
	if _, panicked := errors.AsType[*controlloop.PanicError](err); lasting && !panicked && !objects.Unavailable(err) {
		return min(max(failing, minRetryPause), backoff.Longest), nil
	}
	return 0, err
}

// complaintsOf describes what failed, and returns whether any of it will not pass by itself.
func complaintsOf(results []outcome) (complaints []string, failures []error, lasting bool) {
	for _, o := range results {
		switch {
		case o.err != nil:
			complaints = append(complaints, fmt.Sprintf("%s: %v", o.what, o.err))
			failures = append(failures, o.err)
			lasting = lasting || !objects.IsTransient(o.err)
		case len(o.conflicts) > 0:
			complaint := fmt.Sprintf("%s: applied but for fields of other managers: %s", o.what, list(o.conflicts))
			complaints = append(complaints, complaint)
			failures = append(failures, errors.New(complaint))
			lasting = true
		}
		if len(o.taken) > 0 {
			complaint := fmt.Sprintf("%s: applied with other node ports than %s", o.what, list(o.taken))
			complaints = append(complaints, complaint)
			failures = append(failures, services.TakenPorts(errors.New(complaint)))
			lasting = true
		}
	}
	return complaints, failures, lasting
}

func list[T fmt.Stringer](items []T) string {
	texts := make([]string, 0, len(items))
	for _, item := range items {
		texts = append(texts, item.String())
	}
	return strings.Join(texts, ", ")
}

func shortened(message string) string {
	if len(message) > maxMessage {
		return strings.ToValidUTF8(message[:maxMessage], "") + " …"
	}
	return message
}

// setNotApplied reports why a Work is not applied, to its condition and as an event.
func (a *Applier) setNotApplied(work *workv1alpha1.Work, condition metav1.Condition) {
	condition.Message = shortened(condition.Message)
	setDrift, _ := a.drift(work) // it is tried again
	a.report.Update(work, workstatus.Apply, func(_ *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
		setDrift(status)
		meta.SetStatusCondition(&status.Conditions, workv1alpha1.Dispatching(work.Generation))
		meta.SetStatusCondition(&status.Conditions, condition)
	})
	a.events.Publish(events.Warning(events.Work(work), events.SyncFailed, condition.Message))
}

// appliedCondition names the fields that the member does not serve. Those of an apply before a restart are in the condition alone.
func appliedCondition(generation int64, present []metav1.Condition, results []outcome) metav1.Condition {
	var dropped []string
	unknown := false
	for _, o := range results {
		unknown = unknown || o.unknownFields
		if len(o.dropped) > 0 {
			dropped = append(dropped, fmt.Sprintf("%s: %s", o.what, strings.Join(o.dropped, ", ")))
		}
	}
	before := meta.FindStatusCondition(present, workv1alpha1.WorkApplied)
	switch {
	case len(dropped) > 0:
		condition := workv1alpha1.AppliedWithout(generation, strings.Join(dropped, "; "))
		condition.Message = shortened(condition.Message)
		return condition
	case unknown && before != nil && before.Status == metav1.ConditionTrue && before.ObservedGeneration == generation:
		return *before
	}
	return workv1alpha1.Applied(generation)
}

// setDropped names fields that the member does not serve.
func (a *Applier) setDropped(work *workv1alpha1.Work, results []outcome) {
	for _, o := range results {
		if len(o.dropped) > 0 {
			a.events.Publish(events.Warning(events.Work(work), events.SyncFailed,
				fmt.Sprintf("%s was applied without fields that the cluster does not serve: %s", o.what, strings.Join(o.dropped, ", "))))
		}
	}
}

func (a *Applier) setSuspended(work *workv1alpha1.Work) {
	a.report.Update(work, workstatus.Apply, func(_ *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
		meta.SetStatusCondition(&status.Conditions, workv1alpha1.DispatchingSuspended(work.Generation))
	})
	a.events.Publish(events.Success(events.Work(work), events.WorkDispatching, workv1alpha1.SuspendDispatchingMessage))
}

// setDispatchingHeld means that nothing is written to the member of a Work.
func (a *Applier) setDispatchingHeld(work *workv1alpha1.Work) {
	a.report.Update(work, workstatus.Apply, func(_ *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
		meta.SetStatusCondition(&status.Conditions, workv1alpha1.DispatchingHeld(work.Generation))
	})
}
