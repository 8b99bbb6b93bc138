package schedule

import (
	"k8s.io/apimachinery/pkg/types"

	"context"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// IsOver returns whether a binding keeps its result for good.
var IsOver = isOver

// Matters returns whether a change of a binding is a reason to schedule it.
var Matters = matters

// Recall is what a binding does to the reservations that were there before the controller.
func (c *Controller) Recall(b workv1alpha2.Binding) {
	c.restoreReservations(client.ObjectKeyFromObject(b), b)
}

// Touch is what an event of the cluster does to the fleet.
func (c *Controller) Touch(cluster string) { c.fleet.Touch(cluster) }

// Confirm is what an update of a binding does to the reservations.
func (c *Controller) Confirm(before, after workv1alpha2.Binding) {
	c.confirm(client.ObjectKeyFromObject(after), before, after)
}

// Reported is what a new resource summary of a cluster does to the reservations.
func (c *Controller) Reported(cluster string) { c.reservations.Reported(cluster) }

// Requeuer is the requeuer of a controller.
type Requeuer = requeuer

// NewRequeuer returns a requeuer that has no snapshot yet.
func NewRequeuer(c *Controller) *Requeuer {
	return newRequeuer(c, controlloop.NewSet(nil, c.deps.Clock).Loop("schedule"))
}

// Begin is the source of the controller.
func (r *requeuer) Begin(ctx context.Context, q queue) error { return r.start(ctx, q) }

// Compare is one comparison with the last snapshot.
func (r *requeuer) Compare(ctx context.Context, q queue) (bool, error) { return r.compare(ctx, q) }

// PendingRequeued returns whether pending bindings are to be requeued since the last call.
func (r *requeuer) PendingRequeued() bool {
	select {
	case <-r.capacity:
		return true
	default:
		return false
	}
}

// ClaimChanged is what a change of a claim does to the queue.
func (r *requeuer) ClaimChanged(namespace, name string, q queue) {
	r.converted(conversion.Change{Claim: types.NamespacedName{Namespace: namespace, Name: name}})
	r.requeueAwaitingClaims(q)
}

// KindsChanged is what a change of kinds does to the queue; nil is a retry.
func (r *requeuer) KindsChanged(ctx context.Context, kinds interpret.Kinds, q queue) error {
	if kinds != nil {
		r.converted(conversion.Change{Kinds: kinds})
	}
	return r.requeueKinds(ctx, q)
}

// Convert notes a change of kinds.
func (r *requeuer) Convert(kinds interpret.Kinds) { r.converted(conversion.Change{Kinds: kinds}) }

// UpdateClaims is what an event of the binding does to the index of those that await claims.
func (c *Controller) UpdateClaims(b workv1alpha2.Binding) { c.awaitingClaims.Update(b) }

// AddPending has a binding wait.
func (c *Controller) AddPending(key types.NamespacedName) { c.pending.Add(key, 0) }

// Waits returns whether a binding is tried again when capacity is freed.
func (c *Controller) Waits(key types.NamespacedName) bool { return c.pending.Has(key) }
