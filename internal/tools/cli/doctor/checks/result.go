package checks

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Status is what a check came to.
type Status string

// The statuses, from good to bad.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Failure Status = "failure"
	// Unchecked means that the check could not be made.
	Unchecked Status = "unchecked"
)

// Result is what one check found about one thing.
type Result struct {
	// Check is the name of the check.
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	// Next is what to do; empty if nothing is to be done.
	Next string `json:"next,omitempty"`
}

// maxResults bounds what one check reports.
const maxResults = 10

// Worst returns the status that counts for all results: a failure before a warning or a check that could not be made.
func Worst(results []Result) Status {
	worst := OK
	for _, r := range results {
		switch {
		case r.Status == Failure:
			return Failure
		case r.Status == Warning, r.Status == Unchecked && worst == OK:
			worst = r.Status
		}
	}
	return worst
}

// report collects the results of one check.
type report struct {
	check   string
	results []Result
}

func (r *report) add(status Status, next, format string, args ...any) {
	r.results = append(r.results, Result{Check: r.check, Status: status, Found: fmt.Sprintf(format, args...), Next: next})
}

// unread notes that something could not be read, and returns whether that is so.
func (r *report) unread(what string, err error) bool {
	switch {
	case err == nil:
		return false
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		r.add(Unchecked, "run the command as an administrator of the control plane", "%s: forbidden", what)
	default:
		r.add(Unchecked, "", "%s: %v", what, err)
	}
	return true
}

// done returns the results, at most maxResults, and otherwise that all is well.
func (r *report) done(format string, args ...any) []Result {
	if len(r.results) == 0 {
		r.add(OK, "", format, args...)
	}
	rank := []Status{Failure, Warning, Unchecked, OK}
	slices.SortStableFunc(r.results, func(a, b Result) int { return slices.Index(rank, a.Status) - slices.Index(rank, b.Status) })
	if n := len(r.results) - maxResults; n > 0 {
		worst := r.results[maxResults].Status
		r.results = r.results[:maxResults]
		r.add(worst, "", "and %d more", n)
	}
	return r.results
}
