package capacity_test

import (
	"testing"
	"time"

	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
)

func TestReservations(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	oneCPU := capacity.DemandOf(list("cpu", "1"))
	tenCPU := capacity.HeadroomOf(cluster(list("cpu", "10", "pods", "110"), nil, nil))
	cases := map[string]struct {
		reason string
		story  func(*capacity.Reservations)
		want   int32 // what still fits into 10 cpu
	}{
		"Reserved": {
			reason: "a reservation takes capacity at once",
			story:  func(l *capacity.Reservations) { l.Reserve("a", oneCPU, map[string]int32{"m": 4}, start) },
			want:   6,
		},
		"TwoOwners": {
			reason: "reservations add up",
			story: func(l *capacity.Reservations) {
				l.Reserve("a", oneCPU, map[string]int32{"m": 4}, start)
				l.Reserve("b", oneCPU, map[string]int32{"m": 3}, start)
			},
			want: 3,
		},
		"ReportedBeforeRunning": {
			reason: "a report from before the copies run does not contain them",
			story: func(l *capacity.Reservations) {
				l.Reserve("a", oneCPU, map[string]int32{"m": 4}, start)
				l.Reported("m")
			},
			want: 6,
		},
		"RunningThenReported": {
			reason: "the first report after the copies run contains them",
			story: func(l *capacity.Reservations) {
				l.Reserve("a", oneCPU, map[string]int32{"m": 4}, start)
				l.Running("a", "m")
				l.Reported("m")
			},
			want: 10,
		},
		"GrownAfterRunning": {
			reason: "a new reservation makes an old copy's health worthless as evidence",
			story: func(l *capacity.Reservations) {
				l.Reserve("a", oneCPU, map[string]int32{"m": 2}, start)
				l.Running("a", "m")
				l.Reserve("a", oneCPU, map[string]int32{"m": 2}, start)
				l.Reported("m")
			},
			want: 6,
		},
		"TakenBack": {
			reason: "a write that failed gives its reservation back",
			story: func(l *capacity.Reservations) {
				l.Reserve("a", oneCPU, map[string]int32{"m": 4}, start)
				l.Reserve("a", oneCPU, map[string]int32{"m": -4}, start)
			},
			want: 10,
		},
		"NothingToTakeBack": {
			reason: "scaling down what was never reserved here frees no capacity",
			story:  func(l *capacity.Reservations) { l.Reserve("a", oneCPU, map[string]int32{"m": -4}, start) },
			want:   10,
		},
		"Dropped": {
			reason: "a deleted binding holds nothing",
			story: func(l *capacity.Reservations) {
				l.Reserve("a", oneCPU, map[string]int32{"m": 4, "n": 1}, start)
				l.Forget("a")
			},
			want: 10,
		},
		"Expired": {
			reason: "a reservation that is never used ends",
			story: func(l *capacity.Reservations) {
				l.Reserve("a", oneCPU, map[string]int32{"m": 4}, start)
				l.Reserve("b", oneCPU, map[string]int32{"m": 1}, start.Add(time.Minute))
				l.Expire(start.Add(time.Minute + time.Second))
			},
			want: 9,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := capacity.NewReservations(time.Minute)
			tc.story(l)
			taken := l.Taken("m")
			if got := tenCPU.Fit(&oneCPU, &taken); got != tc.want {
				t.Errorf("%s: %d fit, want %d", tc.reason, got, tc.want)
			}
		})
	}
}

func TestReservationsReportEachChangeOnce(t *testing.T) {
	l := capacity.NewReservations(time.Minute)
	if got := l.Changes(); got != nil {
		t.Fatalf("new reservations have changes: %v", got)
	}
	l.Reserve("a", capacity.DemandOf(nil), map[string]int32{"m": 1, "n": 1}, time.Time{})
	if got := l.Changes(); len(got) != 2 || got["m"].IsZero() {
		t.Fatalf("after a reservation in two clusters: %v", got)
	}
	l.Forget("a")
	got := l.Changes()
	if usage, ok := got["m"]; !ok || !usage.IsZero() {
		t.Fatalf("a reservation that ended must show as nothing taken: %v", got)
	}
	if got := l.Changes(); got != nil {
		t.Fatalf("changes are returned once: %v", got)
	}
}
