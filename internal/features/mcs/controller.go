package mcs

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/mcs/dispatch"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// Deps is what the control plane's part of this room needs besides the manager's client and cache.
type Deps struct {
	// Client is that of package hubclient. Required.
	Client client.Client
	// Templates has the Services. Required.
	Templates Templates
	// Selected returns whether a policy selects a Service that no MultiClusterService and no policy has. Required. It is a function because
	// propagate knows it, and features do not import stages.
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

const exposeWorkers = 4

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
		deps.Grace = endpointslices.DefaultGrace
	}
	if err := mcswork.AddIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	writes := deps.Client
	fleet := endpointslices.Clusters{Reader: writes, Clock: deps.Clock, Grace: deps.Grace}
	e := &exposer{client: writes, templates: deps.Templates, selected: deps.Selected, fleet: fleet, events: deps.Events}
	everyService := everyOwner(mgr.GetClient())
	if err := endpointslices.AddLoop(mgr, "service", e, exposeWorkers,
		&templateFeed{templates: deps.Templates},
		source.Kind(mgr.GetCache(), &networkingv1alpha1.MultiClusterService{}, mcswork.OnService(func(ctx context.Context, key types.NamespacedName, q endpointslices.Queue) {
			q.Add(reconcile.Request{NamespacedName: key})
		})),
		source.Kind(mgr.GetCache(), &workv1alpha2.ResourceBinding{}, onBinding()),
		source.Kind(mgr.GetCache(), &workv1alpha1.Work{}, onArrival()),
		source.Kind(mgr.GetCache(), &clusterv1alpha1.Cluster{}, endpointslices.OnCluster(everyService)),
	); err != nil {
		return err
	}
	return dispatch.Setup(mgr, dispatch.Deps{Client: deps.Client, Clusters: fleet, Metrics: deps.Metrics, Clock: deps.Clock})
}

// templateFeed is the hub's Services as a source.
type templateFeed struct{ templates Templates }

// Start implements source.Source.
func (f *templateFeed) Start(_ context.Context, q endpointslices.Queue) error {
	f.templates.Subscribe(func(ref hubstore.Ref) {
		if ref.GroupVersionKind == serviceKind {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}})
		}
	})
	return nil
}

// WaitForSync implements source.SyncingSource.
func (f *templateFeed) WaitForSync(ctx context.Context) error { return f.templates.WaitForSync(ctx) }

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
	add := func(w work, q endpointslices.Queue) {
		if owner := mcswork.OwnerOf(w); owner.Name != "" {
			q.Add(reconcile.Request{NamespacedName: owner})
		}
	}
	return handler.TypedFuncs[work, reconcile.Request]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[work], q endpointslices.Queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[work], q endpointslices.Queue) {
			if endpointslices.AppliedResult(e.ObjectOld) != endpointslices.AppliedResult(e.ObjectNew) || mcswork.IsRegistration(e.ObjectNew) || mcswork.IsRegistration(e.ObjectOld) {
				add(e.ObjectOld, q) // somebody may have taken its owner's name off
				add(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[work], q endpointslices.Queue) { add(e.Object, q) },
	}
}

// everyOwner queues all MultiClusterServices.
func everyOwner(reader client.Reader) func(context.Context, endpointslices.Queue) {
	return func(ctx context.Context, q endpointslices.Queue) {
		for _, key := range mcswork.Owners(ctx, reader) {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
}
