package waits

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestRefusalsAreBounded: a cluster takes from each user the same time in a period, however often it comes and goes, and whatever others have
// of it.
func TestRefusalsAreBounded(t *testing.T) {
	now := time.Now()
	c := clocktesting.NewFakePassiveClock(now)
	w := New(c)
	for _, step := range []struct {
		name          string
		after         time.Duration
		user, cluster string
		want          bool
	}{
		{"the first", 0, "alice", "a", true},
		{"soon after", 30 * time.Second, "alice", "a", true},
		{"another outage", 20 * time.Minute, "alice", "a", true},
		{"a third one", 5 * time.Minute, "alice", "a", true},
		{"the time is over", 30 * time.Second, "alice", "a", false},
		{"later", 10 * time.Minute, "alice", "a", false},
		{"another user", 0, "bob", "a", true},
		{"another cluster", 0, "alice", "b", true},
		{"the next period", waitPeriod, "alice", "a", true},
	} {
		c.SetTime(c.Now().Add(step.after))
		if got := w.refuse(step.user, step.cluster); got != step.want {
			t.Errorf("%s: refused %t, want %t", step.name, got, step.want)
		}
	}
	if len(w.refused) != 1 {
		t.Errorf("%d records are kept from an earlier period", len(w.refused)-1)
	}
}
