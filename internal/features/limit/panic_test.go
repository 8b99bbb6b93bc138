package limit

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// TestAPanicAboutOneNamespaceStopsNothing: what waits in another namespace is woken, and so is the one at the next time.
func TestAPanicAboutOneNamespaceStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var size int64
		l, _ := newLimiter(stored{}, Limits{Objects: 10, Bytes: 100}, &size)
		registry := prometheus.NewRegistry()
		l.deps.Clock = clock.RealClock{}
		sizes := 0
		l.deps.StorageSize = func(context.Context) (int64, int64, error) {
			if sizes++; sizes == 1 {
				panic("a size that is not expected")
			}
			return 0, 1000, nil
		}
		var woken atomic.Int32
		l.OnSpace(func(string) bool { woken.Add(1); return false })
		l.waiting["shop"] = wakes
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.run(ctx, controlloop.NewSet(registry, l.deps.Clock).Loop("limit")) }()
		synctest.Wait()
		if n := woken.Load(); n != 1 {
			t.Errorf("what waits is woken %d times, want once in the turn in which another part panicked", n)
		}
		<-time.After(period)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil || sizes != 2 {
			t.Errorf("the size is read %d times, %v; want again after a panic", sizes, err)
		}
		if n := testutil.CollectAndCount(registry, "flagship_loop_reconcile_total"); n != 2 {
			t.Errorf("%d results are counted, want a panic and successes", n)
		}
	})
}
