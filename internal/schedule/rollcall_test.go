package schedule

import (
	"fmt"
	"testing"
)

func TestThousandsAreWokenSomeAtATime(t *testing.T) {
	var waiting []Item
	for i := range 2*wokenAtOnce + 200 {
		waiting = append(waiting, Item{Namespace: "shop", Name: fmt.Sprint(i)})
	}
	all := func() []Item { return waiting }
	var calls rollCall
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
