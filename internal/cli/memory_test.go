package cli

import "testing"

func TestMemoryLimit(t *testing.T) {
	const mb = 1 << 20
	cases := map[string]struct {
		live int64
		busy bool
		want int64
	}{
		"an idle control plane stays small":              {120 * mb, false, idleFloor},
		"a busy one may trade memory for time":           {120 * mb, true, busyFloor},
		"an idle large fleet is not squeezed":            {1000 * mb, false, 1548 * mb},
		"a busy large fleet has room for half as much":   {1000 * mb, true, 1596 * mb},
		"the floor ends where the share of live exceeds": {240 * mb, true, 456 * mb},
	}
	for name, c := range cases {
		if got := memoryLimit(c.live, c.busy); got != c.want {
			t.Errorf("%s: %d MB, want %d MB", name, got/mb, c.want/mb)
		}
	}
}
