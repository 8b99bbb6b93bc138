package controlloop

import (
	"context"
	"errors"
	"testing"

	"k8s.io/client-go/util/workqueue"
)

// TestRepeats: a handler that fails is run again until it succeeds, and one that succeeds is not.
func TestRepeats(t *testing.T) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	var repeats Repeats[string]
	cause, runs := errors.New("the list failed"), 0
	handle := func(context.Context) error {
		if runs++; runs < 3 {
			return cause
		}
		return nil
	}
	repeats.Handle(t.Context(), queue, func(context.Context) error { return nil })
	if queue.Len() != 0 {
		t.Error("a handler that succeeded is repeated")
	}
	repeats.Handle(t.Context(), queue, handle)
	repeats.Handle(t.Context(), queue, func(context.Context) error { return cause })
	if request, _ := queue.Get(); request != "" || queue.Len() != 0 {
		t.Errorf("the request is %q and %d others, want the zero request alone", request, queue.Len())
	}
	for range 2 {
		if err := repeats.Reconcile(t.Context()); !errors.Is(err, cause) {
			t.Errorf("the error is %v, want that of the handler", err)
		}
	}
	if runs != 3 {
		t.Errorf("the handler ran %d times, want until it succeeded", runs)
	}
}

// TestAPanicIsThatOfOneHandler: the others are run nevertheless, and it is again.
func TestAPanicIsThatOfOneHandler(t *testing.T) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	var repeats Repeats[string]
	panics, fails, runs := true, true, 0
	repeats.Handle(t.Context(), queue, func(context.Context) error {
		if panics {
			panic("an unexpected object")
		}
		return nil
	})
	repeats.Handle(t.Context(), queue, func(context.Context) error {
		if runs++; fails {
			return errors.New("the list failed")
		}
		return nil
	})
	fails = false
	if _, panicked := errors.AsType[*PanicError](repeats.Reconcile(t.Context())); !panicked || runs != 2 {
		t.Errorf("the other handler ran %d times, want again; or the panic is no error", runs)
	}
	panics = false
	if err := repeats.Reconcile(t.Context()); err != nil || runs != 2 {
		t.Errorf("in the end the error is %v, and the other handler ran %d times", err, runs)
	}
}
