package servers

import (
	"slices"
	"testing"
	"time"
)

func TestResult(t *testing.T) {
	r := Result{Fault: "stop", Servers: 3}
	for _, seconds := range []time.Duration{4, 2, 3} {
		r.add(takeover{lease: seconds * time.Second, loops: (seconds + 1) * time.Second})
	}
	if r.LeaseP50 != 3 || r.LeaseMax != 4 || r.LoopsP50 != 4 || r.LoopsMax != 5 || !slices.Equal(r.Lease, []float64{4, 2, 3}) {
		t.Errorf("result is %+v; the seconds are in the order of the rounds", r)
	}
	if got, want := r.Row(), []string{"stop", "3", "3", "3.00 s", "4.00 s", "4.00 s", "5.00 s"}; !slices.Equal(got, want) {
		t.Errorf("row is %q, want %q", got, want)
	}
}
