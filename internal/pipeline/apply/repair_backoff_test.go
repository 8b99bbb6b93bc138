package apply

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestRepairsSlowDownWhenDriftReturns(t *testing.T) {
	var d repairBackoff
	key, now := types.NamespacedName{Name: "w"}, time.Unix(1000, 0)
	var pauses []time.Duration
	for range freeRepairs + 8 {
		own := d.pause(key, now, true)
		if pauses = append(pauses, d.pause(key, now, false)); own != pauses[len(pauses)-1] {
			t.Errorf("what may be our own write waits %v, a change of others %v", own, pauses)
		}
	}
	want := []time.Duration{0, 0, 0, 0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute}
	if diff := cmp.Diff(want, pauses); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if p := d.pause(key, now.Add(repairMemory+time.Second), false); p != 0 {
		t.Errorf("after a quiet time a repair waits %v", p)
	}
}
