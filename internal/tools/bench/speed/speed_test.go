package speed

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAverageLeavesOutExtremes(t *testing.T) {
	usual := slices.Repeat([]time.Duration{2 * time.Millisecond, 4 * time.Millisecond}, 9)
	for reason, tc := range map[string]struct {
		pieces []time.Duration
		want   time.Duration
	}{
		"nothing":              {nil, 0},
		"one":                  {[]time.Duration{time.Millisecond}, time.Millisecond},
		"an interrupt":         {append(slices.Clone(usual), time.Hour, 0), 3 * time.Millisecond},
		"too few to leave out": {[]time.Duration{2 * time.Millisecond, 4 * time.Millisecond}, 3 * time.Millisecond},
	} {
		t.Run(reason, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, average(tc.pieces)); diff != "" {
				t.Errorf("average (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheTimeOfAnotherThreadDoesNotCount: a piece of work takes the same whatever else the process does.
func TestTheTimeOfAnotherThreadDoesNotCount(t *testing.T) {
	if _, err := os.Stat("/proc/thread-self/schedstat"); err != nil {
		t.Skip("the system does not count the CPU time of threads")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, err := threadTime()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan time.Duration)
	go func() {
		runtime.LockOSThread()
		var sum time.Duration
		for range 20 {
			took, err := piece()
			if err != nil {
				t.Error(err)
			}
			sum += took
		}
		ended <- sum
	}()
	others := <-ended
	own, err := threadTime()
	if err != nil {
		t.Fatal(err)
	}
	if own -= began; others <= 0 || own >= others {
		t.Errorf("this thread waited and took %v, the other one worked and took %v", own, others)
	}
}

// TestMeasureEnds waits for the end of what Measure began.
func TestMeasureEnds(*testing.T) { Measure()() }
