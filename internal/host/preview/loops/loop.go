package loops

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// attempts is how often a request is reconciled after errors.
const attempts = 3

// Loop is a loop of any type of requests.
type Loop interface {
	// Changed adds the requests that follow from a change.
	Changed(ctx context.Context, change controlloop.Change)
	// Step reconciles one request, and returns whether there was any.
	Step(ctx context.Context) (did bool, err error)
	// Settle adds requests when no loop has any.
	Settle(ctx context.Context) error
	// Rest drops the requests that wait for a time.
	Rest()
	// Drop drops all requests.
	Drop()
}

// loop is one of the loops.
type loop[R comparable] struct {
	name  string
	steps controlloop.Steps[R]
	queue *Queue[R]
	// failed counts the errors of each request, and problem takes the last.
	failed  map[R]int
	problem func(error)
}

// New returns a loop. Problem receives the error of a request that is not retried any more.
func New[R comparable](name string, steps controlloop.Steps[R], queue *Queue[R], problem func(error)) Loop {
	return &loop[R]{name: name, steps: steps, queue: queue, failed: map[R]int{}, problem: problem}
}

// Changed implements Loop.
func (l *loop[R]) Changed(ctx context.Context, change controlloop.Change) {
	for _, watch := range l.steps.Watches {
		watch(ctx, change, l.queue)
	}
}

// Step implements Loop.
func (l *loop[R]) Step(ctx context.Context) (bool, error) {
	request, ok := l.queue.next()
	if !ok {
		return false, nil
	}
	result, err := l.steps.Reconciler.Reconcile(ctx, request)
	switch {
	case err == nil && result.RequeueAfter > 0:
		l.queue.AddAfter(request, result.RequeueAfter)
	case err == nil:
	case ctx.Err() != nil:
		return false, fmt.Errorf("computing what the change does: %w", ctx.Err())
	default:
		l.failed[request]++
		if final := errors.Is(err, reconcile.TerminalError(nil)); final || l.failed[request] >= attempts {
			l.problem(fmt.Errorf("%s of %v: %w", l.name, request, err))
		} else if apierrors.IsConflict(err) {
			l.queue.Add(request)
		} else {
			l.queue.AddRateLimited(request)
		}
	}
	return true, nil
}

// Settle implements Loop.
func (l *loop[R]) Settle(ctx context.Context) error {
	l.queue.resume()
	if l.steps.Settle == nil {
		return nil
	}
	if err := l.steps.Settle(ctx, l.queue); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	return nil
}

// Rest implements Loop.
func (l *loop[R]) Rest() { clear(l.queue.delayed) }

// Drop implements Loop.
func (l *loop[R]) Drop() { l.queue.clear() }
