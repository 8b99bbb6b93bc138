package propagate

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/bindings"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/dependencies"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/policies"
)

// Deps is what the package needs. All fields but those that say what nil means are required.
type Deps struct {
	// Client is that of package hubclient.
	Client client.Client
	// Bindings writes bindings. It is the scheduler, which adds its result; no stage imports another. Nil: Client writes them, without a result.
	Bindings    bindings.Writer
	Templates   Templates
	Interpreter interface {
		workloads
		interpret.Shape
	}
	// Customized returns the fingerprint of the customizations for replicas, components and dependencies of a kind; a binding is made
	// again from its template when it differs. The template has to be enqueued then, as after a change of its own. Nil: always "".
	// It is a function because only the customized part of the interpreter counts.
	Customized func(schema.GroupVersionKind) string
	// Conversion has the definition that a custom resource needs in members, which it depends on. Nil: none needs one.
	Conversion conversion.Adviser
	// HasWorks returns whether Works of a binding exist, whether or not the binding does. Nil: none exist. It is a function because
	// render has the index of Works by their binding, and no stage imports another.
	HasWorks func(ctx context.Context, binding client.ObjectKey) (bool, error)
	Events   events.Recorder
	Clock    clock.PassiveClock
}

const templateWorkers = 16

// Setup adds the controllers of this package to the manager.
func Setup(ctx context.Context, mgr ctrl.Manager, deps Deps) error {
	if err := Indexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	p := newPropagator(deps.Client, deps)
	in := &inbox{}
	if err := setupTemplates(mgr, p, in); err != nil {
		return fmt.Errorf("setting up propagation of templates: %w", err)
	}
	if err := policies.Setup(mgr, newPolicyLoop(p, in)); err != nil {
		return fmt.Errorf("setting up propagation policies: %w", err)
	}
	return nil
}

func newPropagator(c client.Client, deps Deps) *propagator {
	if deps.Bindings == nil {
		deps.Bindings = bindings.PlainWriter{Client: c}
	}
	return &propagator{
		client: c, bindings: deps.Bindings, policies: hubclient.Policies{Reader: c}, templates: deps.Templates, workload: deps.Interpreter, shape: deps.Interpreter,
		unmatched:  flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(1, 20, deps.Clock),
		customized: deps.Customized, conversion: conversion.OrUnchanged(deps.Conversion), hasWorks: deps.HasWorks, events: deps.Events, clock: deps.Clock, started: deps.Clock.Now(),
	}
}

func setupTemplates(mgr ctrl.Manager, p *propagator, in *inbox) error {
	settings := controller.TypedOptions[hubstore.Ref]{
		Reconciler: controlloop.Track(mgr, p), MaxConcurrentReconciles: templateWorkers, RateLimiter: backoff.Limiter[hubstore.Ref](),
		SkipNameValidation: new(true), // several control planes may live in one process
	}
	settings.NewQueue = fairqueue.Shared(templateWorkers, func(ref hubstore.Ref) string { return ref.Namespace })
	loop, err := controller.NewTyped("propagate", mgr, settings)
	if err != nil {
		return err
	}
	feed := &templateFeed{templates: p.templates, inbox: in}
	for _, watch := range []source.TypedSource[hubstore.Ref]{
		feed,
		source.TypedKind(mgr.GetCache(), &workv1alpha2.ResourceBinding{}, onBinding[*workv1alpha2.ResourceBinding](p)),
		source.TypedKind(mgr.GetCache(), &workv1alpha2.ClusterResourceBinding{}, onBinding[*workv1alpha2.ClusterResourceBinding](p)),
	} {
		if err := loop.Watch(watch); err != nil {
			return err
		}
	}
	return nil
}

// Priorities in the queue of templates. Templates that a restart enqueues wait behind those that users change.
const (
	soon  = 0
	later = handler.LowPriority
)

// inbox lets other parts of the package add templates to the queue of the loop.
type inbox struct {
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[hubstore.Ref]]
}

func (i *inbox) open(queue workqueue.TypedRateLimitingInterface[hubstore.Ref]) { i.queue.Store(&queue) }

// add queues templates; before the queue is open it does nothing, since opening it brings all of them.
func (i *inbox) add(priority int, refs ...hubstore.Ref) {
	queue := i.queue.Load()
	if queue == nil || len(refs) == 0 {
		return
	}
	fairqueue.Enqueue(*queue, priority, refs...)
}

// templateFeed is the store as a source of the template loop.
type templateFeed struct {
	templates Templates
	inbox     *inbox
	synced    atomic.Bool
}

// Start implements source.TypedSource.
func (f *templateFeed) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[hubstore.Ref]) error {
	f.inbox.open(queue)
	f.templates.Subscribe(func(ref hubstore.Ref) {
		priority := later
		if f.synced.Load() {
			priority = soon
		}
		// A kind may be watched in another version by now.
		fairqueue.Enqueue(queue, priority, ref.Canonical(f.templates))
	})
	return nil
}

// WaitForSync implements source.TypedSyncingSource.
func (f *templateFeed) WaitForSync(ctx context.Context) error {
	if err := f.templates.WaitForSync(ctx); err != nil {
		return err
	}
	f.synced.Store(true)
	return nil
}

// onBinding queues the template of a binding that was created, changed in metadata or spec, or is going, and the templates it
// refers to if it matters to them.
func onBinding[B interface {
	workv1alpha2.Binding
	client.Object
}](p *propagator) handler.TypedEventHandler[B, hubstore.Ref] {
	templates := p.templates
	type queue = workqueue.TypedRateLimitingInterface[hubstore.Ref]
	templateOf := func(binding B) hubstore.Ref { return hubstore.TemplateOf(binding.BindingSpec()).Canonical(templates) }
	return handler.TypedFuncs[B, hubstore.Ref]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[B], q queue) {
			fairqueue.Enqueue(q, later, templateOf(e.Object))
			if !e.IsInInitialList { // all templates come by themselves then
				fairqueue.Enqueue(q, soon, neededBy(templates, e.Object)...)
			}
		},
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[B], q queue) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
				!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
				e.ObjectOld.GetAnnotations()[workv1alpha2.TemplateContentAnnotation] != e.ObjectNew.GetAnnotations()[workv1alpha2.TemplateContentAnnotation] {
				fairqueue.Enqueue(q, later, templateOf(e.ObjectNew))
			}
			if !dependencies.Same(e.ObjectOld, e.ObjectNew) {
				fairqueue.Enqueue(q, soon, neededBy(templates, e.ObjectOld)...)
				fairqueue.Enqueue(q, soon, neededBy(templates, e.ObjectNew)...)
			}
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[B], q queue) {
			ref := templateOf(e.Object)
			if bindings.IsNameOf(e.Object, ref) {
				p.deleted.Store(ref, workv1alpha2.Binding(e.Object)) // before the template is reconciled
			}
			fairqueue.Enqueue(q, soon, ref)
			fairqueue.Enqueue(q, soon, neededBy(templates, e.Object)...)
		},
	}
}

func newPolicyLoop(p *propagator, in *inbox) *policies.Loop {
	return &policies.Loop{
		Client: p.client, Templates: p.templates, Events: p.events, Clock: p.clock, Started: p.started,
		Enqueue: in.add, Unselected: func(ref hubstore.Ref, claim policy.Claim) { p.unselected.Store(ref, claim) },
	}
}
