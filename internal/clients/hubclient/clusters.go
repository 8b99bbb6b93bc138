package hubclient

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// EveryCluster enqueues every Cluster.
func EveryCluster(reader client.Reader) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		var clusters clusterv1alpha1.ClusterList
		if err := reader.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil {
			// A map function cannot fail: each Cluster is enqueued by its own next event.
			log.FromContext(ctx).Error(err, "Clusters are not enqueued: they were not listed")
			return nil
		}
		requests := make([]reconcile.Request, 0, len(clusters.Items))
		for i := range clusters.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Name: clusters.Items[i].Name}})
		}
		return requests
	})
}

// ClusterChanged ignores those updates of Clusters that change nothing but what their members have and serve: they are most of all.
func ClusterChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1alpha1.Cluster)
		after, alsoOK := e.ObjectNew.(*clusterv1alpha1.Cluster)
		return !ok || !alsoOK || before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) ||
			!equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
			!equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions) ||
			!slices.Equal(before.Status.RemedyActions, after.Status.RemedyActions)
	}}
}

// ReconcileClusters adds a controller that reconciles each Cluster when ClusterChanged, and every Cluster when the spec of an object of
// the kind of policy changes.
func ReconcileClusters(mgr ctrl.Manager, name string, reader client.Reader, policy client.Object, r reconcile.Reconciler) error {
	err := ctrl.NewControllerManagedBy(mgr).Named(name).
		For(&clusterv1alpha1.Cluster{}, builder.WithPredicates(ClusterChanged())).
		Watches(policy, EveryCluster(reader), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{RateLimiter: backoff.Limiter[reconcile.Request](), SkipNameValidation: new(true)}).
		Complete(controlloop.Track(mgr, r))
	if err != nil {
		return fmt.Errorf("adding the loop %s: %w", name, err)
	}
	return nil
}
