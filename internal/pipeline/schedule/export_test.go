package schedule

import (
	"context"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// Recall is what a binding does to the reservations that were there before the controller.
func (c *Controller) Recall(b workv1alpha2.Binding) { c.recall(itemOf(b), b) }

// Touch is what an event of the cluster does to the fleet.
func (c *Controller) Touch(cluster string) { c.fleet.touch(cluster) }

// Confirm is what an update of a binding does to the reservations.
func (c *Controller) Confirm(before, after workv1alpha2.Binding) {
	c.confirm(itemOf(after), before, after)
}

// Reported is what a new resource summary of a cluster does to the reservations.
func (c *Controller) Reported(cluster string) { c.reservations.Reported(cluster) }

// Waker is the requeuer of a controller.
type Waker = requeuer

// NewWaker returns a requeuer that has seen nothing yet.
func NewWaker(c *Controller) *Waker { return newRequeuer(c) }

// Look is one look at the fleet.
func (w *requeuer) Look(ctx context.Context, q queue) (bool, error) { return w.look(ctx, q) }

// Roused says whether those who wait are to be looked at, since it was asked last.
func (w *requeuer) Roused() bool {
	select {
	case <-w.stirred:
		return true
	default:
		return false
	}
}

// Claim is what a claim that comes does to the queue.
func (w *requeuer) Claim(namespace, name string, q queue) {
	w.claimChanged(namespace, name)
	w.requeueAwaitingClaims(q)
}

// Redefine is what a change of kinds does to the queue.
func (w *requeuer) Redefine(ctx context.Context, kinds interpret.Kinds, q queue) error {
	w.kindsChanged(kinds)
	return w.wakeKinds(ctx, q)
}

// Note is what an event of the binding does to the index of those who await claims.
func (c *Controller) Note(b workv1alpha2.Binding) { c.awaitingClaims.note(b) }

// Wait keeps an Item waiting.
func (c *Controller) Wait(it Item) { c.pending.enter(it, 0) }
