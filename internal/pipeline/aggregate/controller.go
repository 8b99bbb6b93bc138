package aggregate

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// Deps is what the package needs. Client, Templates, Statuses, Events and
// Clock are required.
type Deps struct {
	// Client is that of package hubclient.
	Client    client.Client
	Templates Templates
	Statuses  Statuses
	// Conversion has the kinds whose status is removed when their copies are gone, and converts the statuses that agents report. Nil:
	// none.
	Conversion conversion.Adviser
	// Customized returns the fingerprint of the customizations that aggregate the status of a kind; "" if there are none. Nil: always "".
	// It is a function because only the customized part of the interpreter counts.
	Customized func(schema.GroupVersionKind) string
	// Changes publishes kinds whose interpretation changed; the statuses of their templates are aggregated again. Nil: none changes.
	Changes *interpret.Changes
	Events  events.Recorder
	Clock   clock.PassiveClock
	// Metadata has when templates were written, which is measured with Metrics. Nil: it is not.
	Metadata Metadata
	Metrics  prometheus.Registerer
}

const (
	workers = 16
	// indexBinding finds Works by the permanent id of their binding.
	indexBinding = "aggregate.binding"
)

type queue = workqueue.TypedRateLimitingInterface[Request]

// Setup adds the loop to the manager.
func Setup(ctx context.Context, mgr ctrl.Manager, deps Deps) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &workv1alpha1.Work{}, indexBinding, bindingIDs); err != nil {
		return fmt.Errorf("indexing Works by binding: %w", err)
	}
	a := newAggregator(deps.Client, deps)
	loop, err := controller.NewTyped("aggregate", mgr, controller.TypedOptions[Request]{
		Reconciler:              controlloop.Track(mgr, a),
		MaxConcurrentReconciles: workers,
		NewQueue:                fairqueue.Shared(workers, func(r Request) string { return r.Namespace }),
		RateLimiter:             backoff.Limiter[Request](),
		SkipNameValidation:      new(true), // several control planes may live in one process
	})
	if err != nil {
		return fmt.Errorf("setting up aggregation: %w", err)
	}
	for _, watch := range []source.TypedSource[Request]{
		source.TypedKind(mgr.GetCache(), &workv1alpha1.Work{}, a.onWork()),
		source.TypedKind(mgr.GetCache(), &workv1alpha2.ResourceBinding{}, onBinding[*workv1alpha2.ResourceBinding](a)),
		source.TypedKind(mgr.GetCache(), &workv1alpha2.ClusterResourceBinding{}, onBinding[*workv1alpha2.ClusterResourceBinding](a)),
	} {
		if err := loop.Watch(watch); err != nil {
			return fmt.Errorf("watching for aggregation: %w", err)
		}
	}
	if deps.Changes == nil {
		return nil
	}
	if err := loop.Watch(a.onMeaning(deps.Changes)); err != nil {
		return fmt.Errorf("watching for aggregation: %w", err)
	}
	return nil
}

func newAggregator(c client.Client, deps Deps) *aggregator {
	customized := deps.Customized
	if customized == nil {
		customized = func(schema.GroupVersionKind) string { return "" }
	}
	return &aggregator{
		client: c, templates: deps.Templates, statuses: deps.Statuses, conversion: conversion.OrUnchanged(deps.Conversion), customized: customized,
		events: deps.Events, clock: deps.Clock, pace: newPace(deps.Clock),
		arrivals: newArrivals(deps.Metadata, deps.Metrics, deps.Clock),
	}
}

// bindingIDs lists the permanent ids of the binding that a Work comes from.
func bindingIDs(obj client.Object) []string {
	var ids []string
	for _, key := range []string{workv1alpha2.ResourceBindingPermanentIDLabel, workv1alpha2.ClusterResourceBindingPermanentIDLabel} {
		if id := obj.GetLabels()[key]; id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// requestsOf lists the bindings that a Work comes from.
func requestsOf(work *workv1alpha1.Work) []Request {
	var requests []Request
	if name := work.Annotations[workv1alpha2.ResourceBindingNameAnnotation]; name != "" {
		requests = append(requests, Request{Namespace: work.Annotations[workv1alpha2.ResourceBindingNamespaceAnnotation], Name: name})
	}
	if name := work.Annotations[workv1alpha2.ClusterResourceBindingNameAnnotation]; name != "" {
		requests = append(requests, Request{Name: name})
	}
	return requests
}

// enqueue adds bindings after the time for which changes are gathered; one that waits already keeps its time.
func (a *aggregator) enqueue(q queue, priority int, requests ...Request) {
	for _, request := range requests {
		a.pace.changed(request)
		fairqueue.EnqueueAfter(q, priority, a.pace.window(request), request)
	}
}

// onMeaning enqueues the bindings of templates whose kind is interpreted in another way now.
func (a *aggregator) onMeaning(changes *interpret.Changes) source.TypedSource[Request] {
	return source.TypedFunc[Request](func(ctx context.Context, q queue) error {
		changes.Subscribe(func(kinds interpret.Kinds) {
			a.repeats.Handle(ctx, q, func(ctx context.Context) error {
				requests, err := a.bindingsOf(ctx, kinds)
				a.enqueue(q, 0, requests...)
				return err
			})
		})
		return nil
	})
}

// bindingsOf lists the bindings of templates of some kinds.
func (a *aggregator) bindingsOf(ctx context.Context, kinds interpret.Kinds) ([]Request, error) {
	bindings, err := hubclient.Bindings(ctx, a.client)
	var requests []Request
	for _, binding := range bindings {
		resource := binding.BindingSpec().Resource
		if kinds(resource.GroupVersionKind()) {
			requests = append(requests, Request{Namespace: binding.GetNamespace(), Name: binding.GetName()})
		}
	}
	return requests, err
}

// onWork enqueues the binding of a Work whose status may have changed. A Work that was just created has no status.
func (a *aggregator) onWork() handler.TypedEventHandler[*workv1alpha1.Work, Request] {
	type work = *workv1alpha1.Work
	return handler.TypedFuncs[work, Request]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[work], q queue) {
			if len(e.Object.Status.Conditions) > 0 && !e.IsInInitialList { // all bindings are enqueued at the start anyway
				a.enqueue(q, 0, requestsOf(e.Object)...)
			}
		},
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[work], q queue) {
			if e.ObjectOld.ResourceVersion != e.ObjectNew.ResourceVersion {
				a.enqueue(q, 0, requestsOf(e.ObjectNew)...)
			}
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[work], q queue) {
			a.enqueue(q, 0, requestsOf(e.Object)...)
		},
	}
}

// hasLost returns whether a status has less of what this package writes than before: as a rule another client removed it.
func hasLost(before, after *workv1alpha2.ResourceBindingStatus) bool {
	return len(after.AggregatedStatus) < len(before.AggregatedStatus) ||
		meta.FindStatusCondition(before.Conditions, workv1alpha2.FullyApplied) != nil &&
			meta.FindStatusCondition(after.Conditions, workv1alpha2.FullyApplied) == nil
}

// onBinding enqueues a binding whose targets or content changed, that cannot be rendered any more, or can again, or whose status lost what
// this package wrote.
func onBinding[B interface {
	workv1alpha2.Binding
	client.Object
}](a *aggregator) handler.TypedEventHandler[B, Request] {
	of := func(binding B) Request {
		return Request{Namespace: binding.GetNamespace(), Name: binding.GetName()}
	}
	return handler.TypedFuncs[B, Request]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[B], q queue) {
			if e.IsInInitialList {
				a.noteStart(of(e.Object), e.Object)
				a.enqueue(q, handler.LowPriority, of(e.Object))
				return
			}
			a.arrivals.created(of(e.Object), e.Object)
			if len(e.Object.BindingSpec().Clusters) > 0 { // it has its result from the beginning
				a.enqueue(q, 0, of(e.Object))
			}
		},
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[B], q queue) {
			before, after := e.ObjectOld.BindingStatus(), e.ObjectNew.BindingStatus()
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || hasLost(before, after) ||
				!before.LastScheduledTime.Equal(after.LastScheduledTime) || unrendered(e.ObjectOld) != unrendered(e.ObjectNew) {
				a.enqueue(q, 0, of(e.ObjectNew))
			}
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[B], q queue) {
			a.forget(of(e.Object))
			a.arrivals.end(of(e.Object))
			if a.leave(of(e.Object), e.Object) {
				a.enqueue(q, 0, of(e.Object))
			}
		},
	}
}
