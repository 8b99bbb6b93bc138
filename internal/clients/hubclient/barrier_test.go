package hubclient

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

func version(v string) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "w", ResourceVersion: v}}
}

// TestWriteBarrier: a write is waited for until its version, or a later one of the kind, is in the cache.
func TestWriteBarrier(t *testing.T) {
	tests := map[string]struct {
		before, after func(toolscache.ResourceEventHandler)
		waits         bool
	}{
		"the version is there":      {before: func(h toolscache.ResourceEventHandler) { h.OnAdd(version("10"), true) }},
		"a later one is there":      {before: func(h toolscache.ResourceEventHandler) { h.OnUpdate(version("3"), version("11")) }},
		"it comes":                  {before: func(h toolscache.ResourceEventHandler) { h.OnAdd(version("9"), true) }, after: func(h toolscache.ResourceEventHandler) { h.OnUpdate(version("9"), version("10")) }, waits: true},
		"the object goes meanwhile": {after: func(h toolscache.ResourceEventHandler) { h.OnDelete(version("12")) }, waits: true},
		"an older event is no answer": {
			before: func(h toolscache.ResourceEventHandler) { h.OnAdd(version("11"), true); h.OnAdd(version("4"), true) },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := &informers{}
				barrier := NewWriteBarrier(from, clock.RealClock{})
				if _, err := barrier.kind(t.Context(), version("")); err != nil {
					t.Fatal(err)
				}
				if test.before != nil {
					test.before(from.handler)
				}
				done := make(chan error, 1)
				go func() { done <- barrier.Await(t.Context(), version("10")) }()
				synctest.Wait()
				if waits := len(done) == 0; waits != test.waits {
					t.Errorf("waits: %v, want %v", waits, test.waits)
				}
				if test.after != nil {
					test.after(from.handler)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestWriteBarrierEnds: the wait is bounded, and ends with its context.
func TestWriteBarrierEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		barrier := NewWriteBarrier(&informers{}, clock.RealClock{})
		start := time.Now()
		if err := barrier.Await(t.Context(), version("10")); err != nil || time.Since(start) != barrierTimeout {
			t.Errorf("%v after %s, want nil after %s", err, time.Since(start), barrierTimeout)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the loop ends")
		cancel(cause)
		if err := barrier.Await(ctx, version("10")); !errors.Is(err, cause) {
			t.Errorf("the error is %v, want %v", err, cause)
		}
	})
	if err := NewWriteBarrier(&informers{err: context.Canceled}, clock.RealClock{}).Await(t.Context(), version("10")); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
