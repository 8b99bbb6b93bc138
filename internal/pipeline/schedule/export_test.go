package schedule

import (
	"context"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// Recall is what a binding does to the ledger that was there before the controller.
func (c *Controller) Recall(b workv1alpha2.Binding) { c.recall(itemOf(b), b) }

// Touch is what an event of the cluster does to the fleet.
func (c *Controller) Touch(cluster string) { c.fleet.touch(cluster) }

// Confirm is what an update of a binding does to the ledger.
func (c *Controller) Confirm(before, after workv1alpha2.Binding) {
	c.confirm(itemOf(after), before, after)
}

// Reported is what a new resource summary of a cluster does to the ledger.
func (c *Controller) Reported(cluster string) { c.ledger.Reported(cluster) }

// Waker is the waker of a controller.
type Waker = waker

// NewWaker returns a waker that has not looked yet.
func NewWaker(c *Controller) *Waker { return newWaker(c) }

// Look is one look at the fleet.
func (w *waker) Look(ctx context.Context, q queue) (bool, error) { return w.look(ctx, q) }

// Roused says whether those who wait are to be looked at, since it was asked last.
func (w *waker) Roused() bool {
	select {
	case <-w.stirred:
		return true
	default:
		return false
	}
}

// Claim is what a claim that comes does to the queue.
func (w *waker) Claim(namespace, name string, q queue) {
	w.stir(namespace, name)
	w.wakeAwaiting(q)
}

// Redefine is what a change of kinds does to the queue.
func (w *waker) Redefine(ctx context.Context, kinds interpret.Kinds, q queue) error {
	w.redefine(kinds)
	return w.wakeKinds(ctx, q)
}

// Note is what an event of the binding does to the index of those who await claims.
func (c *Controller) Note(b workv1alpha2.Binding) { c.awaiting.note(b) }

// Wait keeps an Item waiting.
func (c *Controller) Wait(it Item) { c.waiting.enter(it, 0) }
