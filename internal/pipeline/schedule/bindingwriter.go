package schedule

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/cause"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/metrics"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/peers"
)

// Create creates a binding. Its first result is part of the same write if the decision depends on nothing but the placement and the
// clusters; a write less is a tenth of what a new object costs. Other bindings are created without a result, and Reconcile schedules
// them, as it does if the decision fails here.
func (c *Controller) Create(ctx context.Context, b workv1alpha2.Binding) error {
	s := c.decideForWrite(ctx, nil, b)
	if s == nil || s.decision == nil {
		return c.client.Create(ctx, b)
	}
	done, err := c.writeWithResult(ctx, s, b, hubclient.CreateWithStatus)
	if !done {
		return c.client.Create(ctx, b)
	}
	return err
}

// Patch is hubclient.Patch for a binding. If the scheduler has observed before, and what it decides about after depends on nothing but the
// placement and the clusters, the result, or that it still holds, is part of the same write.
func (c *Controller) Patch(ctx context.Context, before, after workv1alpha2.Binding) (changed bool, err error) {
	if s := c.decideForWrite(ctx, before, after); s != nil {
		if done, err := c.writeWithResult(ctx, s, after, hubclient.ReplaceWithStatus); done {
			if err != nil {
				return false, fmt.Errorf("updating binding %s: %w", s.key, err)
			}
			return true, nil
		}
	}
	return hubclient.Patch(ctx, c.client, before, after)
}

// decideForWrite returns the cycle of a binding that is about to be written, nil if its result is not part of that write. Before is what is stored, nil for a
// new one. What the cycle reserves counts at once.
func (c *Controller) decideForWrite(ctx context.Context, before, after workv1alpha2.Binding) *cycle {
	next := copyOf(after)
	next.SetGeneration(1)
	if before != nil {
		if !observed(before) || equality.Semantic.DeepEqual(before.BindingSpec(), after.BindingSpec()) {
			return nil
		}
		next.SetGeneration(before.GetGeneration() + 1)
	} else if len(after.BindingSpec().Clusters) > 0 {
		return nil
	}
	if !c.responsible(next) || !onlyByPlacement(next) {
		return nil
	}
	s := &cycle{key: client.ObjectKeyFromObject(next), binding: next}
	var err error
	if s.req, err = c.request(ctx, next); err != nil {
		return nil // Reconcile meets the error, too
	}
	if s.req.ByAvailableReplicas() || s.req.Fresh || s.req.Devices.Missing || !s.req.Devices.Together().IsEmpty() || len(s.req.Evicting) > 0 {
		return nil
	}
	start := c.deps.Clock.Now()
	snapshot, err := c.fleet.Snapshot(ctx)
	if err != nil {
		return nil
	}
	if s.cause = cause.Of(c.profile, next, &s.req, snapshot); s.cause == cause.NotDue {
		return s
	}
	d := c.profile.Schedule(s.req, snapshot)
	if d.Failure != nil || d.Missing > 0 {
		return nil
	}
	s.decision = &d
	c.metrics.Took(metrics.PhaseDecide, c.deps.Clock.Since(start))
	c.reserve(s)
	return s
}

// observed returns whether a binding is scheduled in its present form.
func observed(b workv1alpha2.Binding) bool {
	status := b.BindingStatus()
	return status.SchedulerObservedGeneration == b.GetGeneration() && meta.IsStatusConditionTrue(status.Conditions, workv1alpha2.Scheduled)
}

// onlyByPlacement returns whether nothing that was written to a binding besides its placement has a say in its result.
func onlyByPlacement(b workv1alpha2.Binding) bool {
	for _, annotation := range []string{
		policyv1alpha1.FailbackAnnotation, workv1alpha2.ReturnsAnnotation, workv1alpha2.ReplicaLimitsAnnotation, workv1alpha2.AwaitsClaimsAnnotation,
		workv1alpha2.FinishedAnnotation,
	} {
		if _, ok := b.GetAnnotations()[annotation]; ok {
			return false
		}
	}
	return !peers.Grouped(b)
}

// writeWithResult writes the binding of a cycle with its result. Done is false if that is not possible: nothing is written or reserved then. On
// success, binding is what is stored.
func (c *Controller) writeWithResult(ctx context.Context, s *cycle, binding workv1alpha2.Binding, write func(context.Context, client.Client, client.Object) (bool, error)) (done bool, err error) {
	next, news, err := c.result(s)
	if err != nil {
		c.takeBackReservations(s)
		return false, nil //nolint:nilerr // Reconcile meets the error, too.
	}
	start := c.deps.Clock.Now()
	done, err = write(ctx, c.client, next)
	if err != nil || !done {
		c.takeBackReservations(s)
	}
	if !done || apierrors.IsConflict(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return false, nil // it may be possible without the result
	}
	if err != nil {
		return true, err
	}
	c.metrics.Took(metrics.PhaseWrite, c.deps.Clock.Since(start))
	if s.decision != nil {
		c.metrics.Decided(s.decision)
		c.pending.Settle(s.key)
	}
	if news != nil {
		c.publishEvent(s, news)
	}
	reflect.ValueOf(binding).Elem().Set(reflect.ValueOf(next).Elem())
	return true, nil
}

// result returns the binding of a cycle with its result, and the condition if it, or the clusters, changed.
func (c *Controller) result(s *cycle) (next workv1alpha2.Binding, news *metav1.Condition, err error) {
	next = copyOf(s.binding)
	if s.decision == nil {
		setObserved(next)
		return next, nil, nil
	}
	moved, _, err := setResult(next, s)
	if err != nil {
		return nil, nil, err
	}
	next.SetGeneration(s.binding.GetGeneration()) // one write is one generation
	return next, c.setStatus(next, s, moved), nil
}
