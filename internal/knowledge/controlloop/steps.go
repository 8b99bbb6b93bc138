package controlloop

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Steps is a loop without a manager. Its owner calls the watches for each change of an object and reconciles the requests that they
// add, one after the other and in an order of its own. A preview runs the stages so, on objects that exist only in memory.
type Steps[R comparable] struct {
	Reconciler reconcile.TypedReconciler[R]
	Watches    []Watch[R]
	// Settle adds the requests that a goroutine of the loop adds in a running control plane, some time after the changes. It is called
	// when no request is left. Nil: there is no such goroutine.
	Settle func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[R]) error
}

// Change is a change of one object. Before is nil for one that is new, After for one that is gone.
type Change struct {
	Before, After client.Object
	// Initial is true for an object that was there before the loop.
	Initial bool
}

// Watch adds the requests that follow from a change.
type Watch[R comparable] func(ctx context.Context, change Change, queue workqueue.TypedRateLimitingInterface[R])

// On is the watch of a handler that is about objects of type O. It ignores all others.
func On[O client.Object, R comparable](h handler.TypedEventHandler[O, R]) Watch[R] {
	return func(ctx context.Context, change Change, queue workqueue.TypedRateLimitingInterface[R]) {
		before, was := change.Before.(O)
		after, is := change.After.(O)
		switch {
		case was && is:
			h.Update(ctx, event.TypedUpdateEvent[O]{ObjectOld: before, ObjectNew: after}, queue)
		case is:
			h.Create(ctx, event.TypedCreateEvent[O]{Object: after, IsInInitialList: change.Initial}, queue)
		case was:
			h.Delete(ctx, event.TypedDeleteEvent[O]{Object: before}, queue)
		}
	}
}

// OnAny is the watch of a handler for any object, which gets those of type O, and updates only if the predicate passes them.
func OnAny[O client.Object](h handler.EventHandler, passes predicate.Predicate) Watch[reconcile.Request] {
	all := On[client.Object](h)
	return func(ctx context.Context, change Change, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		_, was := change.Before.(O)
		_, is := change.After.(O)
		if !was && !is || was && is && passes != nil && !passes.Update(event.UpdateEvent{ObjectOld: change.Before, ObjectNew: change.After}) {
			return
		}
		all(ctx, change, queue)
	}
}
