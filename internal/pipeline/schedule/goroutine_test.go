package schedule_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/flagship-k8s/flagship/internal/pipeline/schedule"
)

// TestTheRequeuerEnds starts the requeuer as the manager does, and waits for it.
func TestTheRequeuerEnds(t *testing.T) {
	for name, begun := range map[string]bool{"before the controller has a queue": false, "after it has one": true} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, member("m1"))
			q := newQueue(t)
			before := runtime.NumGoroutine()
			ctx, cancel := context.WithCancel(t.Context())
			r, ended := schedule.NewRequeuer(h.controller), make(chan error, 1)
			go func() { ended <- r.Start(ctx) }()
			if begun {
				if err := r.Begin(ctx, q); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
				return runtime.NumGoroutine() <= before, nil
			})
			if err != nil {
				t.Errorf("%d goroutines, before it started %d", runtime.NumGoroutine(), before)
			}
		})
	}
}
