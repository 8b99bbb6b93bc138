package enroll

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// Steps returns the part of the loop that takes no connection to a member, without a manager: the finalizers of Clusters, and the Works of
// those that are being deleted. Execution namespaces, accounts and credentials are left out.
func Steps(c client.Client, recorder events.Recorder) controlloop.Steps[reconcile.Request] {
	ofWork := handler.Funcs{DeleteFunc: func(_ context.Context, e crevent.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(e.Object.GetNamespace()); ok {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: cluster}})
		}
	}}
	return controlloop.Steps[reconcile.Request]{
		Reconciler: &departures{newReconciler(c, Deps{Events: recorder})},
		Watches: []controlloop.Watch[reconcile.Request]{
			controlloop.OnAny[*clusterv1alpha1.Cluster](&handler.EnqueueRequestForObject{}, clusterChanges()),
			controlloop.OnAny[*workv1alpha1.Work](ofWork, nil),
		},
	}
}

// departures is the part of the Reconciler that Steps returns.
type departures struct{ *Reconciler }

// Reconcile adds the finalizer of a Cluster, and removes it when a Cluster that is being deleted has no Works.
func (d *departures) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	cluster := &clusterv1alpha1.Cluster{}
	err := d.client.Get(ctx, q.NamespacedName, cluster)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading the cluster: %w", err)
	}
	owner := client.FieldOwner(memberaccount.FieldManager)
	if cluster.DeletionTimestamp == nil {
		return reconcile.Result{}, hubclient.AddFinalizer(ctx, d.client, cluster, clusterv1alpha1.ClusterFinalizer, owner)
	}
	if !slices.Contains(cluster.Finalizers, clusterv1alpha1.ClusterFinalizer) {
		return reconcile.Result{}, nil
	}
	works, err := hubclient.ListWorks(ctx, d.client, client.InNamespace(workv1alpha1.ExecutionNamespace(cluster.Name)))
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(works) == 0 {
		return reconcile.Result{}, hubclient.RemoveFinalizer(ctx, d.client, cluster, clusterv1alpha1.ClusterFinalizer, owner)
	}
	if !slices.ContainsFunc(works, func(work *workv1alpha1.Work) bool { return work.DeletionTimestamp != nil }) {
		if err := d.beginRemoval(ctx, cluster); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, d.removeWorks(ctx, cluster)
}
