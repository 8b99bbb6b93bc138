package eviction

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
)

// A storm of both causes: no second has more evictions than the rate, after the burst, and every copy has its turn.
func TestBothCausesShareTheRate(t *testing.T) {
	const perSecond, copies = 10, 200
	c := testingclock.NewFakeClock(time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC))
	r := NewRate(fixed(perSecond), c, prometheus.NewRegistry())
	waiting := map[string]Cause{}
	for i := range copies {
		waiting[fmt.Sprintf("cluster-%d", i)] = ClusterFailure
		waiting[fmt.Sprintf("application-%d", i)] = ApplicationFailure
	}
	total := 0
	for second := 0; len(waiting) > 0; second++ {
		admitted := 0
		for range 10 { // each waiting copy is tried ten times a second
			for name, cause := range waiting {
				if r.Delay(cause, types.NamespacedName{Namespace: "shop", Name: name}, "a") == 0 {
					delete(waiting, name)
					admitted++
				}
			}
			c.Step(100 * time.Millisecond)
		}
		if total += admitted; total > 2*perSecond+(second+1)*perSecond {
			t.Fatalf("%d copies are evicted in %d s", total, second+1)
		}
		if second > 2*copies/perSecond {
			t.Fatalf("%d copies still wait after %d s", len(waiting), second)
		}
	}
	for _, cause := range []Cause{ClusterFailure, ApplicationFailure} {
		if got := testutil.ToFloat64(r.evictions.WithLabelValues(string(cause), "admitted")); got != copies {
			t.Errorf("%s: %v admitted, want %d", cause, got, copies)
		}
	}
}

// The slots of a time in which the process did not run are lost.
func TestAPauseIsNotFollowedByAllEvictions(t *testing.T) {
	c := testingclock.NewFakeClock(time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC))
	r := NewRate(fixed(1), c, nil)
	admit := func() (admitted int) {
		for i := range 100 {
			if r.Delay(ClusterFailure, types.NamespacedName{Name: fmt.Sprint(i)}, "a") == 0 {
				admitted++
			}
		}
		return admitted
	}
	if got := admit(); got != 2 {
		t.Fatalf("%d are evicted at once, want the burst of 2", got)
	}
	c.Step(time.Hour)
	if got := admit(); got > 2 {
		t.Errorf("%d are evicted after a pause, want 2 at most", got)
	}
	if len(r.slots) > 100 {
		t.Errorf("%d slots are kept", len(r.slots))
	}
}

func fixed(perSecond float64) func() float64 { return func() float64 { return perSecond } }

// TestTheRateChanges: another rate counts from the next copy on.
func TestTheRateChanges(t *testing.T) {
	c, perSecond := testingclock.NewFakeClock(time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)), 1.0
	r, copies := NewRate(func() float64 { return perSecond }, c, nil), 0
	delay := func() time.Duration {
		copies++
		return r.Delay(ClusterFailure, types.NamespacedName{Name: fmt.Sprint(copies)}, "a")
	}
	for range 2 {
		if delay() != 0 {
			t.Fatal("twice the rate is evicted at once")
		}
	}
	if got := delay(); got != time.Second {
		t.Fatalf("the third copy waits for %s", got)
	}
	perSecond = 100
	c.Step(time.Second) // the third has its turn
	if got := delay(); got > 10*time.Millisecond {
		t.Errorf("at 100 copies each second one waits for %s", got)
	}
}
