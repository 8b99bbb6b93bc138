package remedy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	remedyv1alpha1 "github.com/flagship-k8s/flagship/api/remedy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
)

// Setup adds the loop. It reconciles one Cluster at a time. The client is that of package hubclient.
func Setup(mgr ctrl.Manager, hub client.Client) error {
	if hub == nil {
		return errors.New("remedy needs a client")
	}
	return hubclient.ReconcileClusters(mgr, "remedies", hub, &remedyv1alpha1.Remedy{}, &reporter{client: hub})
}

// reporter writes the actions of one Cluster. The patch has that field only, so that it does not conflict with the agent or the loop
// that writes the rest of the status.
type reporter struct{ client client.Client }

// Reconcile implements reconcile.Reconciler.
func (r *reporter) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	cluster := &clusterv1alpha1.Cluster{}
	if err := r.client.Get(ctx, q.NamespacedName, cluster); err != nil || cluster.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var remedies remedyv1alpha1.RemedyList
	if err := r.client.List(ctx, &remedies, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing Remedies: %w", err)
	}
	actions := actionsFor(cluster, remedies.Items)
	if slices.Equal(actions, cluster.Status.RemedyActions) {
		return reconcile.Result{}, nil
	}
	before := cluster.DeepCopy()
	cluster.Status.RemedyActions = actions
	_, err := hubclient.PatchStatus(ctx, r.client, before, cluster)
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// actionsFor returns the actions of all Remedies for a cluster, sorted, each once.
func actionsFor(cluster *clusterv1alpha1.Cluster, remedies []remedyv1alpha1.Remedy) []string {
	actions := sets.New[string]()
	for i := range remedies {
		spec := &remedies[i].Spec
		selected := spec.ClusterAffinity == nil || slices.Contains(spec.ClusterAffinity.ClusterNames, cluster.Name)
		if !selected || remedies[i].DeletionTimestamp != nil || !matches(cluster, spec.DecisionMatches) {
			continue
		}
		for _, action := range spec.Actions {
			actions.Insert(string(action))
		}
	}
	return sets.List(actions)
}

// matches returns whether one of the situations is that of the cluster; without any it always is. A condition that the cluster lacks
// matches nothing.
func matches(cluster *clusterv1alpha1.Cluster, situations []remedyv1alpha1.DecisionMatch) bool {
	return len(situations) == 0 || slices.ContainsFunc(situations, func(s remedyv1alpha1.DecisionMatch) bool {
		want := s.ClusterConditionMatch
		if want == nil {
			return false
		}
		found := meta.FindStatusCondition(cluster.Status.Conditions, want.ConditionType)
		return found != nil && (string(found.Status) == want.ConditionStatus) == (want.Operator == remedyv1alpha1.ClusterConditionEqual)
	})
}
