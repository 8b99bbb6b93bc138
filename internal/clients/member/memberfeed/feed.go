// Package memberfeed gives a fleet of connections the Clusters of a cache.
//
// In: Clusters.
//
// Out: nothing; it calls the fleet.
//
// Owns: nothing.
//
// Never: writes anything.
package memberfeed

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Deps is what Setup needs.
type Deps struct {
	// Fleet is fed with the Clusters of the manager's cache and closed with the manager.
	Fleet *member.Fleet
	// Subscribe has a function called when the fleet may serve other Clusters than before. It is a function because which members a server
	// serves belongs to its host. Nil: that depends on the Clusters alone.
	Subscribe func(func())
}

// Setup feeds the fleet: a connection appears, changes and goes with its Cluster.
func Setup(mgr ctrl.Manager, deps Deps) error {
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		deps.Fleet.Close()
		return nil
	})); err != nil {
		return fmt.Errorf("adding the end of the fleet: %w", err)
	}
	feed := feeder{clusters: mgr.GetClient(), fleet: deps.Fleet}
	loop := ctrl.NewControllerManagedBy(mgr).
		Named("member").
		For(&clusterv1alpha1.Cluster{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, deletionBegins)))
	if deps.Subscribe != nil {
		loop = loop.WatchesRawSource(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			deps.Subscribe(func() { feed.enqueueAll(ctx, queue) })
			return nil
		}))
	}
	if err := loop.Complete(controlloop.Track(mgr, feed)); err != nil {
		return fmt.Errorf("building the member controller: %w", err)
	}
	return nil
}

// deletionBegins lets the first update through that carries a deletion timestamp.
var deletionBegins = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
}}

type feeder struct {
	clusters client.Reader
	fleet    *member.Fleet
}

// enqueueAll enqueues every Cluster.
func (f feeder) enqueueAll(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	var clusters clusterv1alpha1.ClusterList
	if err := f.clusters.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil { // the cache is ending
		log.FromContext(ctx).Error(err, "Clusters cannot be listed, so their connections stay")
		return
	}
	for i := range clusters.Items {
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&clusters.Items[i])})
	}
}

// Reconcile implements reconcile.Reconciler.
func (f feeder) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cluster := &clusterv1alpha1.Cluster{}
	err := f.clusters.Get(ctx, req.NamespacedName, cluster)
	if apierrors.IsNotFound(err) {
		f.fleet.Remove(req.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the cluster: %w", err)
	}
	// A Cluster that is being deleted keeps its connection: its objects are still to be removed from the member.
	return reconcile.Result{}, f.fleet.Upsert(ctx, cluster)
}
