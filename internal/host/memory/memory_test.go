package memory

import "testing"

func TestGrowth(t *testing.T) {
	const mb = 1 << 20
	cases := map[string]struct {
		live       int64
		busy, long bool
		want       int64 // the size of the heap at which garbage is collected
	}{
		"an idle control plane stays small":       {100 * mb, false, false, idleHeap},
		"a busy one may trade memory for time":    {100 * mb, true, false, busyHeap},
		"an idle large fleet is not squeezed":     {1000 * mb, false, false, 1130 * mb},
		"a busy large fleet has more to use":      {1000 * mb, true, false, 1240 * mb},
		"what stays busy gets memory to be quick": {200 * mb, true, true, 348 * mb},
		"the share counts where it is more":       {220 * mb, true, false, 337 * mb},
		"a burst of many objects takes less each": {600 * mb, true, true, 960 * mb},
		"much that is live gets more to be quick": {1000 * mb, true, true, 1500 * mb},
		"but not less than by the square root":    {2300 * mb, true, true, 2783 * mb},
		"nor unless it stays busy":                {2300 * mb, true, false, 2668 * mb},
	}
	for name, c := range cases {
		if got := c.live + growth(c.live, c.busy, c.long); got < c.want*99/100 || got > c.want*101/100 {
			t.Errorf("%s: collected at %d MB, want %d MB", name, got/mb, c.want/mb)
		}
	}
}

func TestPercentOf(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		growth, scanned int64
		want            int
	}{
		"of the stacks, too": {130 * mb, 130 * mb, 100},
		"a start":            {150 * mb, 10 * mb, maxPercent},
		"nothing yet":        {160 * mb, 0, maxPercent},
	} {
		if got := percentOf(c.growth, c.scanned); got != c.want {
			t.Errorf("%s: %d percent, want %d", name, got, c.want)
		}
	}
}
