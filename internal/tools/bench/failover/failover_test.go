package failover

import (
	"slices"
	"testing"
	"time"
)

func TestResult(t *testing.T) {
	o := Options{FailureThreshold: 10 * time.Second, Toleration: 5 * time.Second}
	r := newResult(o, []float64{4, 2, 1, 3})
	if r.P50 != 2 || r.P95 != 4 || r.Slowest != 4 || !slices.Equal(r.Seconds, []float64{4, 2, 1, 3}) {
		t.Errorf("result is %+v; the seconds are in the order of the trials", r)
	}
	if got, want := r.Row(), []string{"10s", "5s", "4", "2.0 s", "4.0 s", "4.0 s"}; !slices.Equal(got, want) {
		t.Errorf("row is %q, want %q", got, want)
	}
	if r := newResult(o, nil); r.P95 != 0 {
		t.Errorf("without trials: %+v", r)
	}
}
