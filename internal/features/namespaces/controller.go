package namespaces

import (
	"context"
	"maps"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
)

const (
	workers = 8
	// Priorities in the queue: a restart brings all namespaces, which wait behind what users do meanwhile.
	soon  = 0
	later = handler.LowPriority
)

type namespaceQueue = workqueue.TypedRateLimitingInterface[Namespace]

// Templates is what the package needs of the store; *hubstore.Store has it.
type Templates interface {
	hubstore.Reader
	Subscribe(func(hubstore.Ref))
	WaitForSync(context.Context) error
	List(schema.GroupVersionKind, string, labels.Selector) []*metav1.PartialObjectMetadata
}

// Deps is what the package needs. All fields are required.
type Deps struct {
	// Client is that of package hubclient.
	Client    client.Client
	Templates Templates
	Events    events.Recorder
	// NewID returns a new UUID for a Work. It is a function so that tests determine the ids.
	NewID func() string
}

// Setup adds the loop to the manager.
func Setup(ctx context.Context, mgr ctrl.Manager, deps Deps) error {
	if err := Indexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	l := &reconciler{client: deps.Client, templates: deps.Templates, events: deps.Events, newID: deps.NewID}
	loop, err := controller.NewTyped("propagate-namespaces", mgr, controller.TypedOptions[Namespace]{
		Reconciler:              controlloop.Track(mgr, l),
		MaxConcurrentReconciles: workers,
		RateLimiter:             backoff.Limiter[Namespace](),
		SkipNameValidation:      new(true), // several control planes may live in one process
	})
	if err != nil {
		return err
	}
	all := func(q namespaceQueue) {
		for _, meta := range l.templates.List(namespaceKind, "", labels.Everything()) {
			fairqueue.Enqueue(q, soon, Namespace(meta.Name))
		}
	}
	for _, watch := range []source.TypedSource[Namespace]{
		&namespaceFeed{templates: deps.Templates},
		source.TypedKind(mgr.GetCache(), &clusterv1alpha1.Cluster{}, onCluster(all)),
		source.TypedKind(mgr.GetCache(), &policyv1alpha1.ClusterOverridePolicy{}, onNamespaceOverride(all)),
		source.TypedKind(mgr.GetCache(), &workv1alpha1.Work{}, onNamespaceWork(deps.Templates)),
	} {
		if err := loop.Watch(watch); err != nil {
			return err
		}
	}
	return nil
}

func carriedNamespace(obj client.Object) []string {
	if name := obj.GetAnnotations()[workv1alpha1.CarriedNamespaceAnnotation]; name != "" {
		return []string{name}
	}
	return nil
}

// namespaceFeed is the source of the namespaces of the store.
type namespaceFeed struct {
	templates Templates
	synced    atomic.Bool
}

// Start implements source.TypedSource.
func (f *namespaceFeed) Start(_ context.Context, queue namespaceQueue) error {
	f.templates.Subscribe(func(ref hubstore.Ref) {
		if ref.GroupVersionKind != namespaceKind {
			return
		}
		priority := later
		if f.synced.Load() {
			priority = soon
		}
		fairqueue.Enqueue(queue, priority, Namespace(ref.Name))
	})
	return nil
}

// WaitForSync implements source.TypedSyncingSource.
func (f *namespaceFeed) WaitForSync(ctx context.Context) error {
	if err := f.templates.WaitForSync(ctx); err != nil {
		return err
	}
	f.synced.Store(true)
	return nil
}

// onCluster enqueues every namespace for a cluster that is created, or whose labels or spec, which override policies select, change.
func onCluster(all func(namespaceQueue)) handler.TypedEventHandler[*clusterv1alpha1.Cluster, Namespace] {
	return handler.TypedFuncs[*clusterv1alpha1.Cluster, Namespace]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[*clusterv1alpha1.Cluster], q namespaceQueue) {
			if !e.IsInInitialList { // all namespaces are enqueued at the start anyway
				all(q)
			}
		},
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[*clusterv1alpha1.Cluster], q namespaceQueue) {
			if e.ObjectOld.Generation != e.ObjectNew.Generation || !maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels) {
				all(q)
			}
		},
	}
}

// onNamespaceOverride enqueues every namespace for a change of an override policy that may select namespaces.
func onNamespaceOverride(all func(namespaceQueue)) handler.TypedEventHandler[*policyv1alpha1.ClusterOverridePolicy, Namespace] {
	about := func(policies ...*policyv1alpha1.ClusterOverridePolicy) bool {
		for _, policy := range policies {
			selectors := policy.Spec.ResourceSelectors
			if len(selectors) == 0 {
				return true
			}
			for _, selector := range selectors {
				if selector.Kind == namespaceKind.Kind {
					return true
				}
			}
		}
		return false
	}
	type policy = *policyv1alpha1.ClusterOverridePolicy
	return handler.TypedFuncs[policy, Namespace]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[policy], q namespaceQueue) {
			if !e.IsInInitialList && about(e.Object) {
				all(q)
			}
		},
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[policy], q namespaceQueue) {
			if e.ObjectOld.Generation != e.ObjectNew.Generation && about(e.ObjectOld, e.ObjectNew) {
				all(q)
			}
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[policy], q namespaceQueue) {
			if about(e.Object) {
				all(q)
			}
		},
	}
}

// onNamespaceWork enqueues the namespaces of Works that others changed, and those whose namespace was deleted while the control plane did
// not run, or before the cache showed the Work.
func onNamespaceWork(templates Templates) handler.TypedEventHandler[*workv1alpha1.Work, Namespace] {
	type work = *workv1alpha1.Work
	add := func(q namespaceQueue, priority int, w work) {
		for _, name := range carriedNamespace(w) {
			fairqueue.Enqueue(q, priority, Namespace(name))
		}
	}
	return handler.TypedFuncs[work, Namespace]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[work], q namespaceQueue) {
			for _, name := range carriedNamespace(e.Object) {
				if _, present := templates.Meta(Namespace(name).ref()); e.IsInInitialList || !present {
					fairqueue.Enqueue(q, later, Namespace(name))
				}
			}
		},
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[work], q namespaceQueue) {
			waits := workv1alpha1.AwaitsBrake(e.ObjectNew) && !workv1alpha1.AwaitsBrake(e.ObjectOld)
			if waits || e.ObjectOld.Generation != e.ObjectNew.Generation || !maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels) {
				add(q, soon, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[work], q namespaceQueue) {
			add(q, soon, e.Object)
		},
	}
}
