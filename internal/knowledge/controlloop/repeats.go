package controlloop

import (
	"context"
	"errors"
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// Repeats are the handlers of events of one loop that failed, as when a list did: a handler cannot return an error to a work queue. The
// zero request, which names no object, is theirs. A panic is an error. The zero value is ready for use.
type Repeats[R comparable] struct {
	mu     sync.Mutex
	failed []func(context.Context) error
}

// Handle runs the handler of an event. One that fails is run again by a worker of the loop, with the backoff of any reconcile.
func (r *Repeats[R]) Handle(ctx context.Context, queue workqueue.TypedRateLimitingInterface[R], handle func(context.Context) error) {
	handle = caught(handle)
	if handle(ctx) == nil {
		return
	}
	r.keep(handle)
	var all R
	queue.Add(all)
}

// Reconcile is the reconcile of the zero request.
func (r *Repeats[R]) Reconcile(ctx context.Context) error {
	r.mu.Lock()
	failed := r.failed
	r.failed = nil
	r.mu.Unlock()
	var failures []error
	for _, handle := range failed {
		if err := handle(ctx); err != nil {
			r.keep(handle)
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// caught is a function whose panic is an error: others that failed are run nevertheless.
func caught(f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return CatchPanic(func() error { return f(ctx) }) }
}

func (r *Repeats[R]) keep(handle func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, handle)
}
