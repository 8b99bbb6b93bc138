package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// Deps is what the control plane's part of this room needs besides the manager's client and cache.
type Deps struct {
	// Client is that of package hubclient. Required.
	Client client.Client
	// Templates has the Services. Required.
	Templates Templates
	// Selected says whether a policy takes a Service that nobody else has. Required.
	Selected func(context.Context, hubstore.Ref, metav1.Object) (bool, error)
	// Events takes news about MultiClusterServices. Required.
	Events events.Recorder
	// Metrics takes what the room tells about its work. Nil: nobody asks.
	Metrics prometheus.Registerer
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Grace is how long the endpoints of a cluster that is not ready stay as they were seen last. After that they are
	// marked as not ready. Default DefaultGrace.
	Grace time.Duration
}

// DefaultGrace is long enough for a control plane that is restarted and short enough for a cluster that burns.
const DefaultGrace = 5 * time.Minute

const exposeWorkers = 4

const (
	// dispatchWorkers bounds the burst in memory: a slice of a hundred endpoints is encoded once for each consumer.
	dispatchWorkers = 8
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Setup adds the loops of the control plane: for MultiClusterServices and for collected slices. The context is for adding
// indexes only.
func Setup(ctx context.Context, mgr ctrl.Manager, deps Deps) error {
	if deps.Client == nil || deps.Templates == nil || deps.Selected == nil || deps.Events == nil {
		return errors.New("services need Client, Templates, Selected and Events")
	}
	if deps.Clock == nil {
		deps.Clock = clock.RealClock{}
	}
	if deps.Grace == 0 {
		deps.Grace = DefaultGrace
	}
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	writes := deps.Client
	fleet := clusterReader{reader: writes, clock: deps.Clock, grace: deps.Grace}
	e := &exposer{client: writes, templates: deps.Templates, selected: deps.Selected, fleet: fleet, events: deps.Events}
	everyService := everyOwner(mgr.GetClient())
	if err := run(mgr, "service", e, exposeWorkers,
		&templateFeed{templates: deps.Templates},
		source.Kind(mgr.GetCache(), &networkingv1alpha1.MultiClusterService{}, onService(func(ctx context.Context, key types.NamespacedName, q queue) {
			q.Add(reconcile.Request{NamespacedName: key})
		})),
		source.Kind(mgr.GetCache(), &workv1alpha2.ResourceBinding{}, onBinding()),
		source.Kind(mgr.GetCache(), &workv1alpha1.Work{}, onArrival()),
		source.Kind(mgr.GetCache(), &clusterv1alpha1.Cluster{}, onCluster(everyService)),
	); err != nil {
		return err
	}
	return setupDispatch(mgr, dispatchDeps{Client: deps.Client, Clusters: fleet, Metrics: deps.Metrics, Clock: deps.Clock})
}

// dispatchDeps is what dispatching needs besides the manager's cache.
type dispatchDeps struct {
	Client   client.Client
	Clusters clusterReader
	Metrics  prometheus.Registerer
	Clock    clock.PassiveClock
}

// setupDispatch adds the loop for collected slices.
func setupDispatch(mgr ctrl.Manager, deps dispatchDeps) error {
	told := newMetrics(deps.Metrics, deps.Clock)
	d := &dispatcher{client: deps.Client, fleet: deps.Clusters, metrics: told}
	return run(mgr, "service-dispatch", d, dispatchWorkers,
		source.Kind(mgr.GetCache(), &networkingv1alpha1.MultiClusterService{}, onService(recordsOf(mgr.GetClient()))),
		source.Kind(mgr.GetCache(), &workv1alpha1.Work{}, onRecord(&d.own, told)),
		source.Kind(mgr.GetCache(), &clusterv1alpha1.Cluster{}, onCluster(everyRecord(mgr.GetClient()))),
	)
}

func run(mgr ctrl.Manager, name string, reconciler reconcile.Reconciler, workers int, sources ...source.Source) error {
	loop, err := controller.New(name, mgr, controller.Options{
		Reconciler: controlloop.Track(mgr, reconciler), MaxConcurrentReconciles: workers,
		RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, time.Minute),
		SkipNameValidation: new(true), // several hubs may live in one process
	})
	if err != nil {
		return fmt.Errorf("adding the loop %s: %w", name, err)
	}
	for _, s := range sources {
		if err := loop.Watch(s); err != nil {
			return fmt.Errorf("adding a watch to the loop %s: %w", name, err)
		}
	}
	return nil
}

// templateFeed is the hub's Services as a source.
type templateFeed struct{ templates Templates }

// Start implements source.Source.
func (f *templateFeed) Start(_ context.Context, q queue) error {
	f.templates.Subscribe(func(ref hubstore.Ref) {
		if ref.GroupVersionKind == serviceKind {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}})
		}
	})
	return nil
}

// WaitForSync implements source.SyncingSource.
func (f *templateFeed) WaitForSync(ctx context.Context) error { return f.templates.WaitForSync(ctx) }

// onService calls add for a MultiClusterService that was created, changed in its spec or labels, or is going.
func onService(add func(context.Context, types.NamespacedName, queue)) handler.TypedEventHandler[*networkingv1alpha1.MultiClusterService, reconcile.Request] {
	type mcs = *networkingv1alpha1.MultiClusterService
	return handler.TypedFuncs[mcs, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e ctrlevent.TypedCreateEvent[mcs], q queue) {
			add(ctx, client.ObjectKeyFromObject(e.Object), q)
		},
		UpdateFunc: func(ctx context.Context, e ctrlevent.TypedUpdateEvent[mcs], q queue) {
			if e.ObjectOld.Generation != e.ObjectNew.Generation || e.ObjectOld.UID != e.ObjectNew.UID ||
				(e.ObjectOld.DeletionTimestamp == nil) != (e.ObjectNew.DeletionTimestamp == nil) ||
				!maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels) {
				add(ctx, client.ObjectKeyFromObject(e.ObjectNew), q)
			}
		},
		DeleteFunc: func(ctx context.Context, e ctrlevent.TypedDeleteEvent[mcs], q queue) {
			add(ctx, client.ObjectKeyFromObject(e.Object), q)
		},
	}
}

// onBinding leads from the binding of a claimed Service to its MultiClusterService.
func onBinding() handler.TypedEventHandler[*workv1alpha2.ResourceBinding, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, binding *workv1alpha2.ResourceBinding) []reconcile.Request {
		name := binding.Annotations[networkingv1alpha1.MultiClusterServiceNameLabel]
		if !ours(binding) || name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{
			Namespace: binding.Annotations[networkingv1alpha1.MultiClusterServiceNamespaceLabel], Name: name,
		}}}
	})
}

// onArrival leads from Works of this room to their MultiClusterService, for what its status says about them: that they
// are there, and whether they are applied.
func onArrival() handler.TypedEventHandler[*workv1alpha1.Work, reconcile.Request] {
	type work = *workv1alpha1.Work
	add := func(w work, q queue) {
		if owner := ownerOf(w); owner.Name != "" {
			q.Add(reconcile.Request{NamespacedName: owner})
		}
	}
	return handler.TypedFuncs[work, reconcile.Request]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[work], q queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[work], q queue) {
			if verdict(e.ObjectOld) != verdict(e.ObjectNew) || isRegistration(e.ObjectNew) || isRegistration(e.ObjectOld) {
				add(e.ObjectOld, q) // somebody may have taken its owner's name off
				add(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[work], q queue) { add(e.Object, q) },
	}
}

func verdict(w *workv1alpha1.Work) string {
	if c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied); c != nil {
		return string(c.Status) + c.Message
	}
	return ""
}

// isApplied says that a member has a Work as it is now.
func isApplied(w *workv1alpha1.Work) bool {
	c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == w.Generation
}

// onRecord queues a record that came, changed or went, and the one that a Work came from which somebody else changed or
// deleted.
func onRecord(own *ownWrites, told *metrics) handler.TypedEventHandler[*workv1alpha1.Work, reconcile.Request] {
	type work = *workv1alpha1.Work
	add := func(w work, q queue) {
		switch {
		case isCollected(w):
			told.changed(w)
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w)})
		case isDispatched(w):
			q.Add(reconcile.Request{NamespacedName: sourceOf(w)})
		}
	}
	return handler.TypedFuncs[work, reconcile.Request]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[work], q queue) {
			if !own.Observe(e.Object) {
				add(e.Object, q) // at the start the record of what was dispatched may have gone while nobody looked
			}
		},
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[work], q queue) {
			if isDispatched(e.ObjectNew) && isApplied(e.ObjectNew) {
				told.arrived(e.ObjectNew)
			}
			if reshaped(e.ObjectOld, e.ObjectNew) && !own.Observe(e.ObjectNew) {
				add(e.ObjectOld, q) // what it is may be what was changed
				add(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[work], q queue) {
			own.Forget(client.ObjectKeyFromObject(e.Object))
			told.underway.end(client.ObjectKeyFromObject(e.Object))
			add(e.Object, q)
		},
	}
}

// onCluster calls all for a cluster that comes, goes, or becomes ready or not.
func onCluster(all func(context.Context, queue)) handler.TypedEventHandler[*clusterv1alpha1.Cluster, reconcile.Request] {
	type cluster = *clusterv1alpha1.Cluster
	ready := func(c cluster) bool {
		return meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	}
	return handler.TypedFuncs[cluster, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e ctrlevent.TypedCreateEvent[cluster], q queue) {
			if !e.IsInInitialList { // everything comes by itself then
				all(ctx, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e ctrlevent.TypedUpdateEvent[cluster], q queue) {
			if ready(e.ObjectOld) != ready(e.ObjectNew) || (e.ObjectOld.DeletionTimestamp == nil) != (e.ObjectNew.DeletionTimestamp == nil) {
				all(ctx, q)
			}
		},
		DeleteFunc: func(ctx context.Context, _ ctrlevent.TypedDeleteEvent[cluster], q queue) { all(ctx, q) },
	}
}

// everyOwner queues all MultiClusterServices.
func everyOwner(reader client.Reader) func(context.Context, queue) {
	return func(ctx context.Context, q queue) {
		for _, key := range owners(ctx, reader) {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
}

// everyRecord queues the records of all of them.
func everyRecord(reader client.Reader) func(context.Context, queue) {
	add := recordsOf(reader)
	return func(ctx context.Context, q queue) {
		for _, key := range owners(ctx, reader) {
			add(ctx, key, q)
		}
	}
}

func owners(ctx context.Context, reader client.Reader) []types.NamespacedName {
	var list networkingv1alpha1.MultiClusterServiceList
	if err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // a cache that has synced does not fail
		log.FromContext(ctx).Error(err, "Listing MultiClusterServices")
	}
	keys := make([]types.NamespacedName, 0, len(list.Items))
	for i := range list.Items {
		keys = append(keys, client.ObjectKeyFromObject(&list.Items[i]))
	}
	return keys
}

// recordsOf queues the records of one MultiClusterService.
func recordsOf(reader client.Reader) func(context.Context, types.NamespacedName, queue) {
	return func(ctx context.Context, owner types.NamespacedName, q queue) {
		works, err := worksOf(ctx, reader, owner)
		if err != nil { // a cache that has synced fails for a missing index only
			log.FromContext(ctx).Error(err, "Listing records")
		}
		for _, w := range works {
			if isCollected(w) {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w)})
			}
		}
	}
}
