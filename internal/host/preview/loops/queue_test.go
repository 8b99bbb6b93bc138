package loops_test

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flagship-k8s/flagship/internal/host/preview/loops"
)

func TestDelayedRequests(t *testing.T) {
	begun := time.Unix(1_800_000_000, 0)
	clk := clocktesting.NewFakePassiveClock(begun)
	q := loops.NewQueue[string]("", clk)
	if _, ok := q.Next(); ok {
		t.Error("an empty queue has a delayed request")
	}
	q.AddAfter("late", time.Hour)
	q.AddAfter("early", time.Minute)
	q.AddAfter("early", 2*time.Minute)
	if due, ok := q.Next(); !ok || !due.Equal(begun.Add(time.Minute)) {
		t.Errorf("the next is due at %v", due)
	}
	clk.SetTime(begun.Add(30 * time.Second))
	q.AddAfter("late", time.Second)
	if due, _ := q.Next(); !due.Equal(begun.Add(31 * time.Second)) {
		t.Errorf("a request that is added again is due at %v", due)
	}
	q.Add("a")
	if item, _ := q.Get(); item != "a" {
		t.Errorf("the first request is %q", item)
	}
}
