package skew

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	// Tolerated is the difference up to which clocks are taken to agree: an answer may be on its way for some seconds, and its header has
	// full seconds.
	Tolerated = time.Minute
	// settled is the change of a difference that is not followed, so that what is reported about it does not change with each answer.
	settled = 10 * time.Second
)

// Skew is the difference of a clock elsewhere. The zero value is none.
type Skew struct{ ahead atomic.Int64 }

// Ahead is how far the other clock is ahead of that of this process, negative if it is behind; 0 if the difference is tolerated.
func (s *Skew) Ahead() time.Duration { return time.Duration(s.ahead.Load()) }

// See reads the header of an answer that was received now. It returns whether that changed Ahead. An answer without a date changes nothing.
func (s *Skew) See(header http.Header, now time.Time) (changed bool) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return false
	}
	ahead, before := date.Sub(now).Round(time.Second), s.Ahead()
	if ahead.Abs() <= Tolerated {
		ahead = 0
	} else if (ahead - before).Abs() <= settled {
		return false
	}
	s.ahead.Store(int64(ahead))
	return ahead != before
}

// Describe returns how far a clock is off, in minutes, such as "1h0m ahead of".
func Describe(ahead time.Duration) string {
	minutes, direction := ahead.Abs().Round(time.Minute), "ahead of"
	if ahead < 0 {
		direction = "behind"
	}
	if hours := minutes / time.Hour; hours > 0 {
		return fmt.Sprintf("%dh%dm %s", hours, (minutes-hours*time.Hour)/time.Minute, direction)
	}
	return fmt.Sprintf("%dm %s", minutes/time.Minute, direction)
}

// Corrected is the clock of this process, set to that of an API server whose answers it receives.
type Corrected struct {
	clock.WithTickerAndDelayedExecution
	Skew
}

var _ clock.WithTickerAndDelayedExecution = &Corrected{}

// Now is the time of the API server.
func (c *Corrected) Now() time.Time { return c.WithTickerAndDelayedExecution.Now().Add(c.Ahead()) }

// Since is the time that has passed by that clock.
func (c *Corrected) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Wrap has the answers of a transport seen. Changed is called when they changed the correction.
func (c *Corrected) Wrap(next http.RoundTripper, changed func(ahead time.Duration)) http.RoundTripper {
	return &seeing{next: next, clock: c, changed: changed}
}

type seeing struct {
	next    http.RoundTripper
	clock   *Corrected
	changed func(time.Duration)
}

// RoundTrip implements http.RoundTripper.
func (s *seeing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(req)
	if err == nil && s.clock.See(resp.Header, s.clock.WithTickerAndDelayedExecution.Now()) {
		s.changed(s.clock.Ahead())
	}
	return resp, err
}

// WrappedRoundTripper is for those who need the transport itself, to upgrade a connection for example.
func (s *seeing) WrappedRoundTripper() http.RoundTripper { return s.next }
