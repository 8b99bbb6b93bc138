package render

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Steps returns the loops for bindings of both scopes without a manager. The client needs the indexes of [Indexes].
func Steps(c client.Client, deps Deps) []controlloop.Steps[reconcile.Request] {
	var steps []controlloop.Steps[reconcile.Request]
	orphans := newOrphans(deps.Metrics)
	for _, namespaced := range []bool{true, false} {
		binding := controlloop.OnAny[*workv1alpha2.ClusterResourceBinding]
		if namespaced {
			binding = controlloop.OnAny[*workv1alpha2.ResourceBinding]
		}
		r := newReconciler(c, c, deps, orphans, namespaced)
		steps = append(steps, controlloop.Steps[reconcile.Request]{Reconciler: r, Watches: []controlloop.Watch[reconcile.Request]{
			binding(r.bindingEvents(), bindingChanges()),
			controlloop.OnAny[*workv1alpha1.Work](r.workChanges(), nil),
			controlloop.OnAny[*clusterv1alpha1.Cluster](r.triggers.ClusterChanges(), nil),
			controlloop.OnAny[*policyv1alpha1.ClusterOverridePolicy](r.triggers.PolicyChanges(), nil),
			controlloop.OnAny[*policyv1alpha1.OverridePolicy](r.triggers.PolicyChanges(), nil),
		}})
	}
	return steps
}
