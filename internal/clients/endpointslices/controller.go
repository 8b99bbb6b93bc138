package endpointslices

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func AddLoop(mgr ctrl.Manager, name string, reconciler reconcile.Reconciler, workers int, sources ...source.Source) error {
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

// OnCluster calls all for a cluster that comes, goes, or becomes ready or not.
func OnCluster(all func(context.Context, Queue)) handler.TypedEventHandler[*clusterv1alpha1.Cluster, reconcile.Request] {
	type cluster = *clusterv1alpha1.Cluster
	ready := func(c cluster) bool {
		return meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	}
	return handler.TypedFuncs[cluster, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e ctrlevent.TypedCreateEvent[cluster], q Queue) {
			if !e.IsInInitialList { // everything comes by itself then
				all(ctx, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e ctrlevent.TypedUpdateEvent[cluster], q Queue) {
			if ready(e.ObjectOld) != ready(e.ObjectNew) || (e.ObjectOld.DeletionTimestamp == nil) != (e.ObjectNew.DeletionTimestamp == nil) {
				all(ctx, q)
			}
		},
		DeleteFunc: func(ctx context.Context, _ ctrlevent.TypedDeleteEvent[cluster], q Queue) { all(ctx, q) },
	}
}
