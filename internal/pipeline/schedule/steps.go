package schedule

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/pending"
)

// Steps returns the controller without a manager.
func Steps(deps Deps) controlloop.Steps[types.NamespacedName] {
	c := New(deps)
	r := newRequeuer(c, nil)
	c.deps.Conversion.Subscribe(r.converted)
	return controlloop.Steps[types.NamespacedName]{
		Reconciler: c,
		Watches: []controlloop.Watch[types.NamespacedName]{
			controlloop.On(bindingEvents[*workv1alpha2.ResourceBinding](c)),
			controlloop.On(bindingEvents[*workv1alpha2.ClusterResourceBinding](c)),
			controlloop.On(clusterEvents(c, r)),
			controlloop.On(capacityEvents(c, r)),
		},
		Settle: r.settle,
	}
}

// settle enqueues at once what Start enqueues after some time.
func (r *requeuer) settle(ctx context.Context, q queue) error {
	waiting := taken(r.capacity)
	if taken(r.kinds) {
		if err := r.requeueKinds(ctx, q); err != nil {
			return err
		}
	}
	_ = taken(r.clusters) // compare reads the changes themselves
	more, err := r.compare(ctx, q)
	if err != nil {
		return err
	}
	r.requeueAwaitingClaims(q)
	if !more && !waiting {
		return nil
	}
	r.controller.pending.RequeueAll()
	for again := true; again; {
		var batch []pending.Binding
		batch, again = r.controller.pending.NextBatch()
		for _, b := range batch {
			fairqueue.Enqueue(q, b.Priority+handler.LowPriority, b.Key)
		}
	}
	return nil
}

// taken empties a channel that holds one element, and returns whether it held one.
func taken(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
