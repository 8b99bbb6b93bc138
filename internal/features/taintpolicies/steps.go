package taintpolicies

import (
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Steps returns the loop without a manager.
func Steps(deps Deps) controlloop.Steps[reconcile.Request] {
	return controlloop.Steps[reconcile.Request]{
		Reconciler: &tainter{deps},
		Watches: []controlloop.Watch[reconcile.Request]{
			controlloop.OnAny[*clusterv1alpha1.Cluster](&handler.EnqueueRequestForObject{}, hubclient.ClusterChanged()),
			controlloop.OnAny[*policyv1alpha1.ClusterTaintPolicy](hubclient.EveryCluster(deps.Client), predicate.GenerationChangedPredicate{}),
		},
	}
}
