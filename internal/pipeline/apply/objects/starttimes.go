package objects

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// startTimes record since when something about a Work has been the case.
type StartTimes struct {
	mu     sync.Mutex
	starts map[types.NamespacedName]time.Time
}

// since records the start unless there is one, and returns the time since.
func (s *StartTimes) Since(work types.NamespacedName, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	start, runs := s.starts[work]
	if !runs {
		if s.starts == nil {
			s.starts = map[types.NamespacedName]time.Time{}
		}
		start = now
		s.starts[work] = now
	}
	return now.Sub(start)
}

// runs returns whether there is a start.
func (s *StartTimes) Runs(work types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, runs := s.starts[work]
	return runs
}

// end removes the start.
func (s *StartTimes) End(work types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.starts, work)
}
