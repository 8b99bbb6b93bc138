package clusterstatus

import (
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// smoother turns single observations of readiness into the condition to publish: a change counts when it has lasted for a
// threshold, so that a short outage moves no workload. The first observation ever counts at once.
type smoother struct {
	// failure and success are how long an unready, or ready, member must have been seen as such.
	failure, success time.Duration
	// published is the condition as it stands; empty before the first observation.
	published metav1.Condition

	seen  metav1.Condition
	since time.Time // when seen first differed from published; zero while it does not
}

// see takes one observation.
func (s *smoother) see(c metav1.Condition, now time.Time) {
	c.Message = bounds.Cut(c.Message, bounds.MessageBytes)
	s.seen = c
	if s.published.Status == "" || c.Status == s.published.Status {
		s.since = time.Time{}
		s.publish(c)
		return
	}
	if s.since.IsZero() {
		s.since = now
	}
	if now.Sub(s.since) >= s.threshold() {
		s.since = time.Time{}
		s.publish(c)
	}
}

// publish keeps the message of a failure that has not changed in kind: it may hold addresses and times that differ at
// every attempt, and a write must be worth it.
func (s *smoother) publish(c metav1.Condition) {
	if c.Status == s.published.Status && c.Reason == s.published.Reason {
		return
	}
	transition := s.published.LastTransitionTime
	if c.Status != s.published.Status {
		transition = metav1.Time{}
	}
	c.LastTransitionTime = transition
	s.published = c
}

// pendingUntil is when the present observation will count, if it lasts.
func (s *smoother) pendingUntil() (time.Time, bool) {
	return s.since.Add(s.threshold()), !s.since.IsZero()
}

// isReady returns whether the member was ready at the last observation, whatever is published.
func (s *smoother) isReady() bool { return s.seen.Status == metav1.ConditionTrue }

func (s *smoother) threshold() time.Duration {
	if s.seen.Status == metav1.ConditionTrue {
		return s.success
	}
	return s.failure
}

// flag is set by one goroutine for another.
type flag struct{ raised atomic.Bool }

func (f *flag) set()        { f.raised.Store(true) }
func (f *flag) isSet() bool { return f.raised.Load() }

// take clears the flag and returns whether it was set.
func (f *flag) take() bool { return f.raised.Swap(false) }
