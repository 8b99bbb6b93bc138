package starttimes

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ByWork records since when something about a Work has been the case. The zero value is ready for use.
type ByWork struct{ starts sync.Map }

// Since records the start unless there is one, and returns the time since.
func (s *ByWork) Since(work types.NamespacedName, now time.Time) time.Duration {
	start, _ := s.starts.LoadOrStore(work, now)
	return now.Sub(start.(time.Time))
}

// Runs returns whether there is a start.
func (s *ByWork) Runs(work types.NamespacedName) bool {
	_, runs := s.starts.Load(work)
	return runs
}

// End removes the start.
func (s *ByWork) End(work types.NamespacedName) { s.starts.Delete(work) }
