package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
)

func TestThousandsAreWokenSomeAtATime(t *testing.T) {
	var waiting []call
	for i := range 2*wokenAtOnce + 200 {
		waiting = append(waiting, call{Item: Item{Namespace: "shop", Name: fmt.Sprint(i)}})
	}
	all := func() []call { return waiting }
	var calls batches
	expect := func(reason string, n int, more bool) {
		t.Helper()
		if woken, left := calls.next(all); len(woken) != n || left != more {
			t.Errorf("%s: %d woken, more %t; want %d, %t", reason, len(woken), left, n, more)
		}
	}
	expect("nothing happened", 0, false)
	calls.owed = true
	expect("new room", wokenAtOnce, true)
	expect("the next", wokenAtOnce, true)
	calls.owed = true
	expect("the last, while there is room again", 200, true)
	expect("all over again", wokenAtOnce, true)
	waiting = waiting[:10]
	expect("who waited then", wokenAtOnce, true)
	expect("the last", 200, false)
	calls.owed = true
	expect("few", 10, false)
}

// New room is for those of the highest priority first.
func TestTheWaitingAreCalledByPriority(t *testing.T) {
	room := newPendingBindings()
	for i := range 2 * wokenAtOnce {
		room.enter(Item{Name: fmt.Sprint(i)}, i%3)
	}
	room.enter(Item{Name: "0"}, 2) // its policy says so now
	calls := batches{owed: true}
	first, _ := calls.next(room.all)
	second, _ := calls.next(room.all)
	woken := slices.Concat(first, second)
	if !slices.IsSortedFunc(woken, func(a, b call) int { return cmp.Compare(b.priority, a.priority) }) {
		t.Errorf("they are called in the order %v", woken)
	}
	if len(woken) != 2*wokenAtOnce || woken[333].priority != 2 || woken[334].priority != 1 {
		t.Errorf("of %d the 334th has priority %d and the next %d, want 2 and 1", len(woken), woken[333].priority, woken[334].priority)
	}
}
