// Package latest gathers the newest entries of a timeline in bounded memory.
package latest

import (
	"cmp"
	"slices"
	"time"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

// Max is how many entries one answer has.
const Max = 1000

// Entries are the newest entries since a time. It never has more than twice as many as an answer.
type Entries struct {
	// From is the time of the oldest entry that is kept.
	From time.Time
	// Truncated is set if entries are left out that are not older than From.
	Truncated bool

	entries []fleetv1alpha1.TimelineEntry
}

// Add adds an entry, unless it is too old.
func (l *Entries) Add(e fleetv1alpha1.TimelineEntry) {
	if e.Time.Time.Before(l.From) {
		return
	}
	if l.entries = append(l.entries, e); len(l.entries) >= 2*Max {
		l.cut()
	}
}

// cut sorts the entries and leaves the oldest out that are too many.
func (l *Entries) cut() {
	slices.SortStableFunc(l.entries, func(a, b fleetv1alpha1.TimelineEntry) int {
		return cmp.Or(a.Time.Compare(b.Time.Time), cmp.Compare(a.Object.Namespace+"/"+a.Object.Name, b.Object.Namespace+"/"+b.Object.Name), cmp.Compare(a.Reason, b.Reason))
	})
	if surplus := len(l.entries) - Max; surplus > 0 {
		l.entries, l.Truncated = slices.Clone(l.entries[surplus:]), true
	}
}

// Status is the answer, in order.
func (l *Entries) Status() fleetv1alpha1.TimelineStatus {
	l.cut()
	return fleetv1alpha1.TimelineStatus{Entries: l.entries, Truncated: l.Truncated}
}
