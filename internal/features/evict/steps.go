package evict

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Steps returns the controller without a manager. Each call of Settle has the guard check the clusters as they are at that time. Its owner
// may advance the clock as far as it likes: the guard does not take that for a pause of the process, or the first call for its start.
func Steps(deps Deps) controlloop.Steps[types.NamespacedName] {
	r := newReconciler(deps)
	w := &clusterChecker{Reconciler: r, clusters: make(chan struct{}, 1)}
	return controlloop.Steps[types.NamespacedName]{
		Reconciler: r,
		Watches: []controlloop.Watch[types.NamespacedName]{
			controlloop.On(bindingEvents[*workv1alpha2.ResourceBinding](r)),
			controlloop.On(bindingEvents[*workv1alpha2.ClusterResourceBinding](r)),
		},
		Settle: func(ctx context.Context, q queue) error {
			r.guard.advance(r.Clock.Now())
			return w.check(ctx, q)
		},
	}
}
