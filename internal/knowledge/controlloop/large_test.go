package controlloop

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// onLarge begins work on a large object of each tenant, in this order, and returns what ends the work that has its turn and names its tenant.
func onLarge(t *testing.T, r *reconciles, tenants ...string) (endNext func() string) {
	t.Helper()
	type work struct {
		tenant string
		end    func()
	}
	going := make(chan work, len(tenants))
	for _, tenant := range tenants {
		go func() {
			ctx, end := r.limit.Acquire(t.Context())
			Large(ctx, tenant, LargeBytes)
			Large(ctx, tenant, LargeBytes) // of the same work
			going <- work{tenant, end}
		}()
		synctest.Wait()
	}
	return func() string {
		t.Helper()
		synctest.Wait()
		if len(going) != 1 {
			t.Fatalf("%d go on, want one", len(going))
		}
		next := <-going
		next.end()
		return next.tenant
	}
}

// TestLargeObjectsTakeTurnsByTenant: one at a time with two processors, and each tenant after one of each other.
func TestLargeObjectsTakeTurnsByTenant(t *testing.T) {
	for name, tc := range map[string]struct{ begun, want []string }{
		"one tenant":      {[]string{"a", "a", "a"}, []string{"a", "a", "a"}},
		"one comes later": {[]string{"a", "a", "a", "a", "b"}, []string{"a", "a", "b", "a", "a"}},
		"several":         {[]string{"a", "a", "a", "b", "b", "c"}, []string{"a", "a", "b", "c", "a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				endNext := onLarge(t, newReconciles(64), tc.begun...)
				var got []string
				for range tc.begun {
					got = append(got, endNext())
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestSmallObjectsDoNotWaitForLargeOnes: neither for a turn nor for the slots of those that wait.
func TestSmallObjectsDoNotWaitForLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReconciles(2)
		endNext := onLarge(t, r, "a", "a", "a", "a")
		ctx, end := r.limit.Acquire(t.Context())
		Large(ctx, "a", LargeBytes-1)
		end()
		Large(t.Context(), "a", LargeBytes) // without a limit
		for range 4 {
			endNext()
		}
		r.computing(t, 0)
	})
}

// TestATurnEnds: a wait for it with the context, and a turn after a while, in case the work that has it waits for one that does not answer.
func TestAWaitForATurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReconciles(2)
		first, end := r.limit.Acquire(t.Context())
		Large(first, "a", LargeBytes)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		second, endSecond := r.limit.Acquire(cancelled)
		Large(second, "a", LargeBytes)
		endSecond()
		begun := time.Now()
		third, endThird := r.limit.Acquire(t.Context())
		Large(third, "a", LargeBytes)
		if took := time.Since(begun); took != longestTurn {
			t.Errorf("it waited for %s", took)
		}
		end() // its turn is over
		if got := r.limit.turns.used; got != 1 {
			t.Errorf("%d have a turn, want the third", got)
		}
		endThird()
		if got := r.limit.turns; got.used != 0 || len(got.waiting) != 0 {
			t.Errorf("left are %+v", got)
		}
	})
}
