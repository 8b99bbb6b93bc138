package evict

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

var start = time.Unix(1_800_000_000, 0)

// watched is a guard that has observed a fleet for long enough.
type watched struct {
	*guard
	now   time.Time
	fleet []seen
}

func watch(n int, zone func(i int) string) *watched {
	w := &watched{guard: newGuard(func() Config { return Config{} }), now: start}
	for i := range n {
		w.fleet = append(w.fleet, seen{name: fmt.Sprintf("m%d", i), zone: zone(i), ready: true})
	}
	w.wait(2 * time.Minute)
	return w
}

// wait has the guard check the fleet every second.
func (w *watched) wait(d time.Duration) {
	for range int(d / time.Second) {
		w.now = w.now.Add(time.Second)
		w.check(w.now, w.fleet)
	}
}

func (w *watched) lose(clusters ...int) {
	for _, i := range clusters {
		w.fleet[i].ready, w.fleet[i].failing = false, true
	}
	w.wait(time.Second)
}

// open are the clusters from which objects may be evicted.
func (w *watched) open() (names []string) {
	for _, c := range w.fleet {
		if w.admits(c.name, types.NamespacedName{Name: "b"}) {
			names = append(names, c.name)
		}
	}
	return names
}

func (w *watched) reason(i int) string {
	h, _ := w.held(w.fleet[i].name)
	return h.reason
}

// TestAStartAdmitsTheSameClusters: those whose evictions were held before a start are held after it, and the others go on.
func TestAStartAdmitsTheSameClusters(t *testing.T) {
	w := &watched{guard: newGuard(func() Config { return Config{} }), now: start}
	for i := range 3 {
		w.fleet = append(w.fleet, seen{name: fmt.Sprint("m", i), zone: fmt.Sprint(i), ready: true, failing: i < 2, held: i == 0})
	}
	w.wait(time.Minute)
	if got := w.open(); !slices.Equal(got, []string{"m1"}) || w.reason(0) != clusterv1alpha1.FleetShareExceededReason {
		t.Errorf("open are %v, and m0 is held for %q", got, w.reason(0))
	}
}

func TestGuard(t *testing.T) {
	one := func(int) string { return "z" }
	apart := func(i int) string { return fmt.Sprint(i) }
	cases := map[string]struct {
		run  func() *watched
		open []string
		// reason is that of the hold of the first cluster that is not open.
		reason string
	}{
		"OneLost":        {func() *watched { w := watch(3, one); w.lose(0); return w }, []string{"m0"}, ""},
		"NoneLost":       {func() *watched { return watch(3, one) }, nil, ""},
		"OneOfTwo":       {func() *watched { w := watch(2, one); w.lose(1); return w }, []string{"m1"}, ""},
		"HalfAtOnce":     {func() *watched { w := watch(4, one); w.lose(0, 1); w.wait(2 * time.Minute); return w }, nil, clusterv1alpha1.ControlPlaneSuspectReason},
		"HalfForLong":    {func() *watched { w := watch(4, apart); w.lose(0, 1); w.wait(7 * time.Minute); return w }, []string{"m0", "m1"}, ""},
		"HalfSlowly":     {func() *watched { w := watch(4, one); w.lose(0); w.wait(2 * time.Minute); w.lose(1); return w }, []string{"m0", "m1"}, ""},
		"MostSlowly":     {func() *watched { w := watch(3, one); w.lose(0); w.wait(2 * time.Minute); w.lose(1); return w }, []string{"m0"}, clusterv1alpha1.FleetShareExceededReason},
		"All":            {func() *watched { w := watch(3, one); w.lose(0, 1, 2); w.wait(time.Hour); return w }, nil, clusterv1alpha1.ControlPlaneSuspectReason},
		"RateOfAZone":    {func() *watched { w := watch(10, one); w.lose(0, 1); return w }, []string{"m0"}, ""},
		"RateLater":      {func() *watched { w := watch(10, one); w.lose(0, 1); w.wait(10 * time.Second); return w }, []string{"m0", "m1"}, ""},
		"RateOfTwoZones": {func() *watched { w := watch(10, apart); w.lose(0, 1); return w }, []string{"m0", "m1"}, ""},
		"UnhealthyZone": {func() *watched {
			w := watch(20, func(i int) string { return fmt.Sprint(i / 5) })
			w.lose(0, 1, 2)
			w.wait(time.Hour)
			return w
		}, []string{}, clusterv1alpha1.ZoneDisruptedReason},
		"WholeZone": {func() *watched {
			w := watch(20, func(i int) string { return fmt.Sprint(i / 3) })
			w.lose(0, 1, 2)
			w.wait(time.Minute)
			return w
		}, []string{"m0", "m1", "m2"}, ""},
		"LargeUnhealthy": {func() *watched {
			w := watch(200, func(i int) string { return fmt.Sprint(i / 60) })
			w.lose(through(34)...)
			w.wait(time.Second)
			return w
		}, []string{"m0"}, ""},
		"JustStarted": {func() *watched {
			w := watch(3, one)
			w.guard = newGuard(func() Config { return Config{} })
			w.lose(0)
			return w
		}, nil, clusterv1alpha1.ControlPlaneSuspectReason},
		"StartedAgo": {func() *watched {
			w := watch(3, one)
			w.guard = newGuard(func() Config { return Config{} })
			w.lose(0)
			w.wait(time.Minute)
			return w
		}, []string{"m0"}, ""},
		"ClockJumps":     {func() *watched { w := watch(3, one); w.now = w.now.Add(time.Hour); w.lose(0); return w }, nil, clusterv1alpha1.ControlPlaneSuspectReason},
		"ClockJumpsBack": {func() *watched { w := watch(3, one); w.now = w.now.Add(-time.Hour); w.lose(0); return w }, nil, clusterv1alpha1.ControlPlaneSuspectReason},
		"ClockJumpsLater": {func() *watched {
			w := watch(3, one)
			w.lose(0)
			w.now = w.now.Add(time.Hour)
			w.wait(time.Second)
			return w
		}, nil, clusterv1alpha1.ControlPlaneSuspectReason},
		"TaintedAndReady": {func() *watched {
			w := watch(3, one)
			w.guard = newGuard(func() Config { return Config{} })
			w.fleet[0].failing = true
			w.wait(time.Second)
			return w
		}, []string{"m0"}, ""},
		"Released": {func() *watched {
			w := watch(3, one)
			w.fleet[1].released = w.now.Add(time.Hour)
			w.lose(0, 1, 2)
			return w
		}, []string{"m1"}, clusterv1alpha1.ControlPlaneSuspectReason},
		"ReleasedForYears": {func() *watched {
			w := watch(3, one)
			w.fleet[1].released = w.now.Add(1000 * time.Hour)
			w.lose(0, 1, 2)
			return w
		}, nil,
			clusterv1alpha1.ControlPlaneSuspectReason},
		"Recovered": {func() *watched {
			w := watch(3, one)
			w.lose(0)
			w.fleet[0].ready, w.fleet[0].failing = true, false
			w.wait(time.Second)
			return w
		}, nil, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := tc.run()
			open := w.open()
			if !slices.Equal(open, tc.open) {
				t.Errorf("objects may leave %v, want %v", open, tc.open)
			}
			for i, c := range w.fleet {
				if c.failing && !slices.Contains(open, c.name) {
					if got := w.reason(i); got != tc.reason {
						t.Errorf("%s is held for %q, want %q", c.name, got, tc.reason)
					}
					break
				}
			}
		})
	}
}

func through(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func TestGuardReportsChanges(t *testing.T) {
	w := watch(3, func(int) string { return "z" })
	w.fleet[0].ready, w.fleet[0].failing, w.fleet[0].fingerprint = false, true, "failed"
	if got := w.check(w.now, w.fleet); !slices.Equal(got, []string{"m0"}) {
		t.Errorf("changed are %v", got)
	}
	if got := w.check(w.now, w.fleet); len(got) > 0 {
		t.Errorf("without a change %v changed", got)
	}
	b := types.NamespacedName{Name: "b"}
	w.admits("m1", b)
	if _, waits := w.held("m1"); waits != 1 {
		t.Errorf("%d bindings wait", waits)
	}
	w.forget(b, "m1")
	if _, waits := w.held("m1"); waits != 1 {
		t.Errorf("%d bindings wait", waits)
	}
	w.forget(b)
	if _, waits := w.held("m1"); waits != 0 {
		t.Errorf("%d bindings wait", waits)
	}
	if got := w.check(w.now, w.fleet[:2]); !slices.Equal(got, []string{"m2"}) {
		t.Errorf("after one cluster left, changed are %v", got)
	}
}

// FuzzGuard loses and recovers clusters at random, and checks that evictions never begin in more of the fleet than its share, nor
// while no cluster is ready.
func FuzzGuard(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte{0, 0, 1, 1, 2, 2, 255, 254})
	f.Fuzz(func(t *testing.T, steps []byte) {
		w := watch(6, func(i int) string { return fmt.Sprint(i / 3) })
		for _, s := range steps[:min(len(steps), 64)] {
			c := &w.fleet[s%6]
			c.ready = !c.ready
			c.failing = !c.ready
			w.wait(time.Duration(s/6%8) * 10 * time.Second)
			w.wait(time.Second)
			open := w.open()
			if len(open) > 3 {
				t.Fatalf("objects may leave %v of 6 clusters", open)
			}
			if len(open) > 0 && !slices.ContainsFunc(w.fleet, func(c seen) bool { return c.ready }) {
				t.Fatal("objects may leave clusters although none is ready")
			}
		}
	})
}

// TestTheShareChanges: another share counts from the next check on.
func TestTheShareChanges(t *testing.T) {
	w := watch(3, func(int) string { return "z" })
	share := 0.5
	w.guard.config = func() Config { return Config{Share: share} }
	w.lose(0)
	w.wait(2 * time.Minute)
	w.lose(1)
	w.wait(2 * time.Minute)
	if got := w.open(); !slices.Equal(got, []string{"m0"}) {
		t.Fatalf("objects leave %v, want m0: two of three are more than half", got)
	}
	share = 0.7
	w.wait(time.Second)
	if got := w.open(); !slices.Equal(got, []string{"m0", "m1"}) {
		t.Errorf("objects leave %v, want both", got)
	}
}
