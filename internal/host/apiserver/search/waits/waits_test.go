package waits

import (
	"context"
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

// TestBroken: a list that broke off is no refusal, and concerns its user only.
func TestBroken(t *testing.T) {
	c := clocktesting.NewFakePassiveClock(time.Now())
	w := New(c)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w.Broke(gone, "alice", "b", "")
	w.Broke(t.Context(), "alice", "b", "token")
	w.Broke(t.Context(), "alice", "a", "")
	for key, want := range map[refusedUser]bool{{"alice", "a"}: true, {"alice", "b"}: false, {"bob", "a"}: false} {
		if err := w.Broken(key.user, key.cluster); (err != nil) != want {
			t.Errorf("%v: %v, want an error: %t", key, err, want)
		}
	}
	if !w.refuse("alice", "a") || w.refused[refusedUser{"alice", "a"}].total != 0 {
		t.Errorf("the records are %v", w.refused)
	}
	c.SetTime(c.Now().Add(brokenTime))
	if err := w.Broken("alice", "a"); err != nil {
		t.Errorf("later: %v", err)
	}
}
