package pending

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestThousandsAreRequeuedInBatches(t *testing.T) {
	waiting := NewBindings()
	const all = 2*batchSize + 200
	for i := range all {
		waiting.Add(types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(i)}, 0)
	}
	expect := func(reason string, n int, more bool) {
		t.Helper()
		if batch, left := waiting.NextBatch(); len(batch) != n || left != more {
			t.Errorf("%s: %d requeued, more %t; want %d, %t", reason, len(batch), left, n, more)
		}
	}
	expect("nothing happened", 0, false)
	waiting.RequeueAll()
	expect("new capacity", batchSize, true)
	expect("the next", batchSize, true)
	waiting.RequeueAll()
	expect("the last, while there is capacity again", 200, true)
	expect("all over again", batchSize, true)
	for i := 10; i < all; i++ {
		waiting.Remove(types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(i)})
	}
	expect("those that waited then", batchSize, true)
	expect("the last", 200, false)
	waiting.RequeueAll()
	expect("few", 10, false)
}

func TestStuckBindingsWait(t *testing.T) {
	waiting := NewBindings()
	stuck, both := types.NamespacedName{Name: "stuck"}, types.NamespacedName{Name: "both"}
	waiting.Add(both, 0)
	for range 2 {
		waiting.SetStuck(stuck, 1, true)
		waiting.SetStuck(both, 0, true)
		if !waiting.Has(stuck) || !waiting.Has(both) {
			t.Error("what is stuck does not wait")
		}
		waiting.SetStuck(stuck, 1, false)
		waiting.SetStuck(both, 0, false)
		if waiting.Has(stuck) || !waiting.Has(both) {
			t.Error("what is not stuck any more waits, or what waits for another reason does not")
		}
	}
	waiting.SetStuck(both, 0, true)
	waiting.Settle(both)
	if !waiting.Has(both) {
		t.Error("what is stuck does not wait when it has a place otherwise")
	}
	waiting.Add(stuck, 0)
	waiting.Settle(stuck)
	if waiting.Has(stuck) {
		t.Error("what has a place waits")
	}
	waiting.Remove(both)
	waiting.SetStuck(both, 0, false)
	if waiting.Len() != 0 {
		t.Errorf("%d wait", waiting.Len())
	}
}

func TestTheHighestPriorityIsRequeuedFirst(t *testing.T) {
	waiting := NewBindings()
	for i := range 2 * batchSize {
		waiting.Add(types.NamespacedName{Name: fmt.Sprint(i)}, i%3)
	}
	waiting.Add(types.NamespacedName{Name: "0"}, 2) // its policy has this priority now
	waiting.RequeueAll()
	first, _ := waiting.NextBatch()
	second, _ := waiting.NextBatch()
	requeued := slices.Concat(first, second)
	if !slices.IsSortedFunc(requeued, func(a, b Binding) int { return cmp.Compare(b.Priority, a.Priority) }) {
		t.Errorf("they are requeued in the order %v", requeued)
	}
	if len(requeued) != 2*batchSize || requeued[333].Priority != 2 || requeued[334].Priority != 1 {
		t.Errorf("of %d the 334th has priority %d and the next %d, want 2 and 1", len(requeued), requeued[333].Priority, requeued[334].Priority)
	}
}
