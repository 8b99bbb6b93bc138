package latest

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

func TestATimelineIsSortedAndBounded(t *testing.T) {
	now := time.Unix(100_000, 0)
	var all []fleetv1alpha1.TimelineEntry
	for i := range Max + 5 {
		all = append(all, fleetv1alpha1.TimelineEntry{Time: metav1.NewTime(now.Add(-time.Duration(i) * time.Second))})
	}
	timeline := func(from time.Time, all []fleetv1alpha1.TimelineEntry) fleetv1alpha1.TimelineStatus {
		l := Entries{From: from}
		for _, e := range all {
			l.Add(e)
		}
		return l.Status()
	}
	got := timeline(now.Add(-time.Hour), all)
	if len(got.Entries) != Max || !got.Truncated || !got.Entries[Max-1].Time.Time.Equal(now) {
		t.Errorf("%d entries until %v, truncated %v", len(got.Entries), got.Entries[len(got.Entries)-1].Time, got.Truncated)
	}
	if !slices.IsSortedFunc(got.Entries, func(a, b fleetv1alpha1.TimelineEntry) int { return a.Time.Compare(b.Time.Time) }) {
		t.Error("the entries are not in order")
	}
	if got := timeline(now.Add(-4*time.Second), all[:10]); len(got.Entries) != 5 || got.Truncated {
		t.Errorf("%d entries of four seconds", len(got.Entries))
	}
	for range 3 {
		all = append(all, all...)
	}
	l := Entries{}
	for _, e := range all {
		if l.Add(e); len(l.entries) > 2*Max {
			t.Fatalf("%d entries are kept", len(l.entries))
		}
	}
}
