package credentials

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestRenewalPause(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		reason     string
		next, want time.Duration
	}{
		"Later":   {"it waits until the first certificate is due", 3 * time.Hour, 3 * time.Hour},
		"FarAway": {"a clock that is set forward takes effect within half a day", 30 * 24 * time.Hour, 12 * time.Hour},
		"Soon":    {"a certificate that cannot be renewed does not keep a processor busy", time.Second, time.Minute},
		"Past":    {"nor does one that is due", -time.Hour, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := renewalPause(clocktesting.NewFakePassiveClock(now), now.Add(tc.next)); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
	if got := renewalPause(clocktesting.NewFakePassiveClock(now), time.Time{}); got != time.Minute {
		t.Errorf("after a failure the pause is %s, want a minute", got)
	}
}
