package dispatch

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/features/mcs/metrics"
)

const (
	// dispatchWorkers bounds the burst in memory: a slice of a hundred endpoints is encoded once for each consumer.
	dispatchWorkers = 8
)

// Deps is what dispatching needs besides the manager's cache.
type Deps struct {
	Client   client.Client
	Clusters endpointslices.Clusters
	Metrics  prometheus.Registerer
	Clock    clock.PassiveClock
}

// Setup adds the loop for collected slices.
func Setup(mgr ctrl.Manager, deps Deps) error {
	told := metrics.NewDispatch(deps.Metrics, deps.Clock)
	d := &dispatcher{client: deps.Client, fleet: deps.Clusters, metrics: told}
	return endpointslices.AddLoop(mgr, "service-dispatch", d, dispatchWorkers,
		source.Kind(mgr.GetCache(), &networkingv1alpha1.MultiClusterService{}, mcswork.OnService(recordsOf(mgr.GetClient()))),
		source.Kind(mgr.GetCache(), &workv1alpha1.Work{}, onRecord(&d.own, told)),
		source.Kind(mgr.GetCache(), &clusterv1alpha1.Cluster{}, endpointslices.OnCluster(everyRecord(mgr.GetClient()))),
	)
}

// onRecord queues a record that came, changed or went, and the one that a Work came from which somebody else changed or
// deleted.
func onRecord(own *endpointslices.OwnWrites, told *metrics.Dispatch) handler.TypedEventHandler[*workv1alpha1.Work, reconcile.Request] {
	type work = *workv1alpha1.Work
	add := func(w work, q endpointslices.Queue) {
		switch {
		case mcswork.IsCollected(w):
			told.Changed(w)
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w)})
		case mcswork.IsDispatched(w):
			q.Add(reconcile.Request{NamespacedName: mcswork.SourceOf(w)})
		}
	}
	return handler.TypedFuncs[work, reconcile.Request]{
		CreateFunc: func(_ context.Context, e ctrlevent.TypedCreateEvent[work], q endpointslices.Queue) {
			if !own.Observe(e.Object) {
				add(e.Object, q) // at the start the record of what was dispatched may have gone while nobody looked
			}
		},
		UpdateFunc: func(_ context.Context, e ctrlevent.TypedUpdateEvent[work], q endpointslices.Queue) {
			if mcswork.IsDispatched(e.ObjectNew) && endpointslices.IsApplied(e.ObjectNew) {
				told.Arrived(e.ObjectNew)
			}
			if endpointslices.Changed(e.ObjectOld, e.ObjectNew) && !own.Observe(e.ObjectNew) {
				add(e.ObjectOld, q) // what it is may be what was changed
				add(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.TypedDeleteEvent[work], q endpointslices.Queue) {
			own.Forget(client.ObjectKeyFromObject(e.Object))
			told.Underway.End(client.ObjectKeyFromObject(e.Object))
			add(e.Object, q)
		},
	}
}

// everyRecord queues the records of all of them.
func everyRecord(reader client.Reader) func(context.Context, endpointslices.Queue) {
	add := recordsOf(reader)
	return func(ctx context.Context, q endpointslices.Queue) {
		for _, key := range mcswork.Owners(ctx, reader) {
			add(ctx, key, q)
		}
	}
}

// recordsOf queues the records of one MultiClusterService.
func recordsOf(reader client.Reader) func(context.Context, types.NamespacedName, endpointslices.Queue) {
	return func(ctx context.Context, owner types.NamespacedName, q endpointslices.Queue) {
		works, err := mcswork.ListOf(ctx, reader, owner)
		if err != nil { // a cache that has synced fails for a missing index only
			log.FromContext(ctx).Error(err, "Listing records")
		}
		for _, w := range works {
			if mcswork.IsCollected(w) {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w)})
			}
		}
	}
}
