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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// fieldManager is the name under which the room writes.
const fieldManager = "flagship-schedule"

// observe notes that the present generation needs no scheduling.
func (c *Controller) observe(ctx context.Context, it Item, b workv1alpha2.Binding) error {
	if b.BindingStatus().SchedulerObservedGeneration == b.GetGeneration() {
		return nil
	}
	return c.patchStatus(ctx, it, b, map[string]any{"schedulerObservedGeneration": b.GetGeneration()})
}

// publish writes what a decision changes: the result, then the status, then the event.
func (c *Controller) publish(ctx context.Context, it Item, b workv1alpha2.Binding, v *verdict) error {
	moved, err := c.publishResult(ctx, it, &b, v)
	if refused := refusal(err); refused != nil {
		v.decision, v.again, v.remaining, err = &Decision{Failure: refused}, retryWaiting, b.BindingSpec().Clusters, nil
		c.waiting.enter(it)
	}
	if err != nil {
		return err
	}
	condition := conditionFor(b, v.decision)
	changed, err := c.publishStatus(ctx, it, b, v, condition, moved)
	if err != nil {
		return err
	}
	switch resource := b.BindingSpec().Resource; {
	case !moved && !changed:
	case condition.Status == metav1.ConditionTrue:
		c.deps.Events.Publish(scheduled(resource, v.decision.Targets))
	default:
		c.deps.Events.Publish(notScheduledEvent(resource, condition.Message))
	}
	return nil
}

// refusal turns an admission's no into a failure to schedule: it is an answer
// for the user to read, not an accident to repeat at once.
func refusal(err error) *Failure {
	if !apierrors.IsForbidden(err) {
		return nil
	}
	reason, message := workv1alpha2.BindingReasonSchedulerError, err.Error()
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		message = status.Status().Message
	}
	if strings.Contains(message, "quota") {
		reason = workv1alpha2.BindingReasonQuotaExceeded
	}
	return &Failure{Reason: reason, Message: message}
}

// publishResult writes spec.clusters and the annotation, in one, if either
// changes, and replaces *b by what the API server answers. After a failure to
// schedule the last result stays, but for clusters that leave: copies that run
// are worth more than a correct empty list, and those in a cluster that leaves
// go with it.
func (c *Controller) publishResult(ctx context.Context, it Item, b *workv1alpha2.Binding, v *verdict) (moved bool, err error) {
	targets, annotations := v.remaining, (*b).GetAnnotations()
	if v.decision.Failure == nil {
		placement, err := json.Marshal(placementOf(*b))
		if err != nil {
			return false, fmt.Errorf("encoding the placement: %w", err)
		}
		targets, annotations = v.decision.Targets, maps.Clone(annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[workv1alpha2.AppliedPlacementAnnotation] = string(placement)
		delete(annotations, workv1alpha2.AwaitsClaimsAnnotation)
		if v.awaits {
			annotations[workv1alpha2.AwaitsClaimsAnnotation] = "true"
		}
	}
	moved = !sameTargets((*b).BindingSpec().Clusters, targets)
	if !moved && maps.Equal(annotations, (*b).GetAnnotations()) {
		return false, nil
	}
	next := copyOf(*b)
	next.SetAnnotations(annotations)
	if moved {
		next.BindingSpec().Clusters = targets
	}
	if err := c.client.Update(ctx, next, client.FieldOwner(fieldManager)); err != nil {
		c.takeBack(it, *b, v)
		return false, fmt.Errorf("writing the result: %w", err)
	}
	c.written.Store(it, next.GetResourceVersion())
	*b = next
	return moved, nil
}

// object is a binding as clients want it.
type object interface {
	client.Object
	workv1alpha2.Binding
}

// copyOf is a binding that may be changed. What is written of it insists on the
// version it was made from: lists are replaced as a whole, and an update spares
// the API server the patching.
func copyOf(b workv1alpha2.Binding) object { return b.DeepCopyObject().(object) }

func placementOf(b workv1alpha2.Binding) *policyv1alpha1.Placement {
	if p := b.BindingSpec().Placement; p != nil {
		return p
	}
	return &policyv1alpha1.Placement{}
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

// publishStatus writes the status fields that change, and returns whether the
// condition did.
func (c *Controller) publishStatus(ctx context.Context, it Item, b workv1alpha2.Binding, v *verdict, condition metav1.Condition, moved bool) (changed bool, err error) {
	status, fields := b.BindingStatus(), map[string]any{}
	if status.SchedulerObservedGeneration != b.GetGeneration() {
		fields["schedulerObservedGeneration"] = b.GetGeneration()
	}
	before := meta.FindStatusCondition(status.Conditions, workv1alpha2.Scheduled)
	changed = before == nil || before.Status != condition.Status || before.Reason != condition.Reason || before.Message != condition.Message
	if v.decision.Failure == nil {
		if name := v.decision.Affinity; name != status.SchedulerObservedAffinityName {
			fields["schedulerObservingAffinityName"] = name
		}
		if moved || changed || v.fresh {
			fields["lastScheduledTime"] = c.dateAfter(b.BindingSpec().RescheduleTriggeredAt)
		}
	}
	switch {
	case changed:
		return true, c.updateStatus(ctx, it, copyOf(b), v, condition)
	case len(fields) == 0:
		return false, nil
	default:
		return false, c.patchStatus(ctx, it, b, fields)
	}
}

// updateStatus writes the whole status, with a new condition.
func (c *Controller) updateStatus(ctx context.Context, it Item, next object, v *verdict, condition metav1.Condition) error {
	status := next.BindingStatus()
	status.SchedulerObservedGeneration = next.GetGeneration()
	if v.decision.Failure == nil {
		status.SchedulerObservedAffinityName = v.decision.Affinity
		scheduled := c.dateAfter(next.BindingSpec().RescheduleTriggeredAt)
		status.LastScheduledTime = &scheduled
	}
	condition.LastTransitionTime = metav1.NewTime(c.deps.Clock.Now())
	meta.SetStatusCondition(&status.Conditions, condition)
	if err := c.client.Status().Update(ctx, next, client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	c.written.Store(it, next.GetResourceVersion())
	return nil
}

func conditionFor(b workv1alpha2.Binding, d *Decision) metav1.Condition {
	switch {
	case d.Failure != nil:
		return workv1alpha2.NotScheduledCondition(b.GetGeneration(), d.Failure.Reason, d.Failure.Message)
	case d.Missing > 0:
		replicas := int64(b.BindingSpec().Replicas)
		message := fmt.Sprintf("%d of %d replicas are placed. %s", replicas-d.Missing, replicas, d.Shortage)
		return workv1alpha2.NotScheduledCondition(b.GetGeneration(), workv1alpha2.BindingReasonUnschedulable, message)
	default:
		return workv1alpha2.ScheduledCondition(b.GetGeneration(), workv1alpha2.ScheduleSuccessMessage)
	}
}

// dateAfter is now, or just after asked if that is in the same second, so that
// a request to reschedule is answered once.
func (c *Controller) dateAfter(asked *metav1.Time) metav1.Time {
	now := metav1.NewTime(c.deps.Clock.Now()).Rfc3339Copy()
	if asked != nil && !now.After(asked.Time) {
		return metav1.NewTime(asked.Add(time.Second))
	}
	return now
}

// patchStatus writes fields that are this room's alone, whatever others write meanwhile.
func (c *Controller) patchStatus(ctx context.Context, it Item, b workv1alpha2.Binding, fields map[string]any) error {
	data, err := json.Marshal(map[string]any{"status": fields})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	named := metav1.ObjectMeta{Namespace: b.GetNamespace(), Name: b.GetName()}
	var answer object = &workv1alpha2.ResourceBinding{ObjectMeta: named}
	if it.Namespace == "" {
		answer = &workv1alpha2.ClusterResourceBinding{ObjectMeta: named}
	}
	if err := c.client.Status().Patch(ctx, answer, client.RawPatch(types.MergePatchType, data), client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("patching the status: %w", err)
	}
	c.written.Store(it, answer.GetResourceVersion())
	return nil
}

// cacheIsBehind says whether b is older than what this controller wrote last.
// A decision on it would repeat the write, or undo it.
func (c *Controller) cacheIsBehind(it Item, b workv1alpha2.Binding) bool {
	written, ok := c.written.Load(it)
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(b.GetResourceVersion(), written.(string))
	if err == nil && order < 0 {
		return true
	}
	c.written.Delete(it)
	return false
}
