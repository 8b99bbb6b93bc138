package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/cause"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// fieldManager is the name of the scheduler in managed fields.
const fieldManager = "flagship-schedule"

// observe records that the present generation needs no scheduling: the condition Scheduled holds for it, too. What DivisionWarning is about may
// have changed nevertheless.
func (c *Controller) observe(ctx context.Context, b workv1alpha2.Binding) error {
	if b.BindingStatus().SchedulerObservedGeneration == b.GetGeneration() && warned(b) {
		return nil
	}
	next := copyOf(b)
	setObserved(next)
	c.warn(next)
	if err := c.client.Status().Update(ctx, next, client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("recording the generation: %w", err)
	}
	return nil
}

// setObserved has the status say that the result is that of the present generation.
func setObserved(b workv1alpha2.Binding) {
	status := b.BindingStatus()
	status.SchedulerObservedGeneration = b.GetGeneration()
	if condition := meta.FindStatusCondition(status.Conditions, workv1alpha2.Scheduled); condition != nil {
		condition.ObservedGeneration = b.GetGeneration()
	}
}

// publish writes what a decision changes, then publishes an event.
func (c *Controller) publish(ctx context.Context, s *cycle) error {
	news, err := c.write(ctx, s)
	if refused := refusal(err); refused != nil {
		s.decision, s.requeueAfter, s.remaining = &decision.Decision{Failure: refused}, recheck, s.binding.BindingSpec().Clusters
		c.pending.Add(s.key, priorityOf(s.binding))
		c.freed() // what was reserved for it
		news, err = c.write(ctx, s)
	}
	if err == nil && news != nil {
		c.publishEvent(s, news)
	}
	return err
}

// publishEvent publishes the event of a result.
func (c *Controller) publishEvent(s *cycle, news *metav1.Condition) {
	template := events.Template(s.binding.BindingSpec().Resource)
	if news.Status == metav1.ConditionTrue {
		message := fmt.Sprintf("%s Result: {%s}", workv1alpha2.ScheduleSuccessMessage, listTargets(s.decision.Targets))
		c.deps.Events.Publish(events.Success(template, events.ScheduleBindingSucceed, message))
	} else {
		c.deps.Events.Publish(events.Warning(template, events.ScheduleBindingFailed, news.Message))
	}
}

// maxListedTargets bounds the clusters that an event lists.
const maxListedTargets = 20

func listTargets(targets []workv1alpha2.TargetCluster) string {
	var parts []string
	for i, t := range targets {
		if i == maxListedTargets {
			parts = append(parts, fmt.Sprintf("and %d more", len(targets)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s:%d", t.Name, t.Replicas))
	}
	return strings.Join(parts, ", ")
}

// refusal makes a write that admission forbids a failure to schedule, which is not retried at once.
func refusal(err error) *decision.Failure {
	if !apierrors.IsForbidden(err) {
		return nil
	}
	reason, message := workv1alpha2.BindingReasonSchedulerError, err.Error()
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		message = status.Status().Message
		if status.Status().Reason == workv1alpha2.BindingReasonQuotaExceeded {
			reason = workv1alpha2.BindingReasonQuotaExceeded
		}
	}
	return &decision.Failure{Reason: reason, Message: message}
}

// write writes a decision to the binding, and returns the condition if it, or the clusters, changed.
// A result and its status are one write, to the subresource schedule. A status alone is written alone.
func (c *Controller) write(ctx context.Context, s *cycle) (news *metav1.Condition, err error) {
	b, next := s.binding, copyOf(s.binding)
	moved, rewritten, err := setResult(next, s)
	if err != nil {
		return nil, err
	}
	news = c.setStatus(next, s, moved)
	switch {
	case rewritten:
		err = c.client.SubResource(workv1alpha2.SubresourceSchedule).Update(ctx, next, client.FieldOwner(fieldManager))
	case equality.Semantic.DeepEqual(b.BindingStatus(), next.BindingStatus()):
		return nil, nil
	default:
		err = c.client.Status().Update(ctx, next, client.FieldOwner(fieldManager))
	}
	if err != nil {
		c.takeBackReservations(s)
		return nil, fmt.Errorf("writing the result: %w", err)
	}
	return news, nil
}

// setResult changes spec.clusters and the annotations of a binding, and returns whether the clusters, and whether any of
// it, changed. After a failure to schedule what remains of the last result stays: copies that run stay until there is a better place,
// those in a cluster that leaves go with it, and all go if the placement selects no cluster any more.
func setResult(next workv1alpha2.Binding, s *cycle) (moved, rewritten bool, err error) {
	targets, before := s.remaining, next.GetAnnotations()
	annotations := before
	if s.decision.Failure == nil {
		placement, err := json.Marshal(cause.PlacementOf(next))
		if err != nil {
			return false, false, fmt.Errorf("encoding the placement: %w", err)
		}
		targets, annotations = s.decision.Targets, maps.Clone(before)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[workv1alpha2.AppliedPlacementAnnotation] = string(placement)
		delete(annotations, workv1alpha2.AwaitsClaimsAnnotation)
		if s.awaitsClaims {
			annotations[workv1alpha2.AwaitsClaimsAnnotation] = "true"
		}
	}
	next.SetAnnotations(annotations)
	if moved = !sameTargets(next.BindingSpec().Clusters, targets); moved {
		next.BindingSpec().Clusters = targets
		next.SetGeneration(next.GetGeneration() + 1) // as the API server will: the status is about what is written with it
	}
	return moved, moved || !maps.Equal(before, annotations), nil
}

// copyOf is a binding that may be changed. It is written as an update with its resource version: lists are replaced as a whole, and
// the API server need not compute a patch.
func copyOf(b workv1alpha2.Binding) workv1alpha2.Binding {
	return b.DeepCopyObject().(workv1alpha2.Binding)
}

// sameTargets compares two results, whatever their order.
func sameTargets(a, b []workv1alpha2.TargetCluster) bool {
	if len(a) != len(b) {
		return false
	}
	byName := func(x, y workv1alpha2.TargetCluster) int { return strings.Compare(x.Name, y.Name) }
	if !slices.IsSortedFunc(a, byName) {
		a = slices.SortedFunc(slices.Values(a), byName)
	}
	return slices.EqualFunc(a, b, func(x, y workv1alpha2.TargetCluster) bool {
		return x.Name == y.Name && x.Replicas == y.Replicas
	})
}

// setStatus sets the whole status of a binding to what was decided, and returns the condition if it, or the clusters, changed.
// lastScheduledTime is that of the decision, also if its result is that of the one before; a decision that only a change of
// clusters caused, and that changes nothing, is not written at all.
func (c *Controller) setStatus(next workv1alpha2.Binding, s *cycle, moved bool) (news *metav1.Condition) {
	status, condition := next.BindingStatus(), conditionFor(next, s.decision)
	before := meta.FindStatusCondition(status.Conditions, workv1alpha2.Scheduled)
	if moved || before == nil || before.Status != condition.Status || before.Reason != condition.Reason || before.Message != condition.Message {
		news = &condition
	}
	dated := news != nil || s.req.Fresh || status.SchedulerObservedGeneration != next.GetGeneration()
	status.SchedulerObservedGeneration = next.GetGeneration()
	if s.decision.Failure == nil {
		status.SchedulerObservedAffinityName = s.decision.Affinity
		if dated {
			scheduled := c.dateAfter(next.BindingSpec().RescheduleTriggeredAt)
			status.LastScheduledTime = &scheduled
		}
	}
	condition.LastTransitionTime = metav1.NewTime(c.deps.Clock.Now())
	meta.SetStatusCondition(&status.Conditions, condition)
	c.warn(next)
	return news
}

func conditionFor(b workv1alpha2.Binding, d *decision.Decision) metav1.Condition {
	switch {
	case d.Failure != nil:
		return workv1alpha2.NotScheduledCondition(b.GetGeneration(), d.Failure.Reason, d.Failure.Message)
	case d.Missing > 0:
		replicas := b.BindingSpec().Replicas
		message := fmt.Sprintf("%d of %d replicas are placed. %s", replicas-d.Missing, replicas, d.Shortage)
		return workv1alpha2.NotScheduledCondition(b.GetGeneration(), workv1alpha2.BindingReasonUnschedulable, message)
	default:
		return workv1alpha2.ScheduledCondition(b.GetGeneration(), workv1alpha2.ScheduleSuccessMessage)
	}
}

// dateAfter is now, or just after the request if that is in the same second, so that a request to reschedule is handled once.
func (c *Controller) dateAfter(request *metav1.Time) metav1.Time {
	now := metav1.NewTime(c.deps.Clock.Now()).Rfc3339Copy()
	if request != nil && !now.After(request.Time) {
		return metav1.NewTime(request.Add(time.Second))
	}
	return now
}
