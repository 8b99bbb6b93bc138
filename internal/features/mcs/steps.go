package mcs

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/mcs/exposure"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Indexes registers the cache indexes of this package.
func Indexes(ctx context.Context, indexer client.FieldIndexer) error {
	return mcswork.AddIndexes(ctx, indexer)
}

// Request is that of the MultiClusterService of a Service; false for other templates.
func Request(ref hubstore.Ref) (request reconcile.Request, ok bool) {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}}, ref.GroupVersionKind == serviceKind
}

// Steps returns the loop over MultiClusterServices without a manager, and not that over slices. Its owner adds the [Request] of each Service
// that changes. The client needs the indexes of [Indexes].
func Steps(deps Deps) controlloop.Steps[reconcile.Request] {
	r := newReconciler(&deps)
	all := func(ctx context.Context, q endpointslices.Queue) {
		owners, err := mcswork.ListOwners(ctx, deps.Client)
		if err != nil {
			return // a cache cannot fail once it is filled
		}
		for _, owner := range owners {
			q.Add(reconcile.Request{NamespacedName: owner})
		}
	}
	type mcs = *networkingv1alpha1.MultiClusterService
	own := &handler.TypedEnqueueRequestForObject[mcs]{}
	type cluster = *clusterv1alpha1.Cluster
	return controlloop.Steps[reconcile.Request]{Reconciler: r, Watches: []controlloop.Watch[reconcile.Request]{
		controlloop.On(handler.TypedFuncs[mcs, reconcile.Request]{
			CreateFunc: own.Create, DeleteFunc: own.Delete,
			UpdateFunc: func(ctx context.Context, e ctrlevent.TypedUpdateEvent[mcs], q endpointslices.Queue) {
				if exposure.Changes().Update(e) {
					own.Update(ctx, e, q)
				}
			},
		}),
		controlloop.On(handler.TypedEnqueueRequestsFromMapFunc[*workv1alpha2.ResourceBinding](ownerOfBinding)),
		controlloop.On(onWork()),
		controlloop.On(handler.TypedFuncs[cluster, reconcile.Request]{
			CreateFunc: func(ctx context.Context, _ ctrlevent.TypedCreateEvent[cluster], q endpointslices.Queue) { all(ctx, q) },
			UpdateFunc: func(ctx context.Context, _ ctrlevent.TypedUpdateEvent[cluster], q endpointslices.Queue) { all(ctx, q) },
			DeleteFunc: func(ctx context.Context, _ ctrlevent.TypedDeleteEvent[cluster], q endpointslices.Queue) { all(ctx, q) },
		}),
	}}
}
