package stored

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// What is lost, and the reasons.
const (
	LostRevision, LostDeletion = "revision", "deletion"

	// TooLarge is what one object of the storage cannot have. It is recorded without its content.
	TooLarge = "too_large"
	// TooMany is what exceeds what may wait in memory.
	TooMany = "too_many"
	// NamespaceLimit is what the limit of a namespace does not allow.
	NamespaceLimit = "namespace_limit"
	// Expired is what the storage does not have any more, since it was recorded too late.
	Expired = "expired"
	// Failed is what could not be read or written for too long.
	Failed = "failed"
)

// Losses counts revisions and deletions that are not recorded, or without their content.
type Losses struct{ total *prometheus.CounterVec }

// NewLosses registers the metric unless the registerer is nil.
func NewLosses(metrics prometheus.Registerer) Losses {
	return Losses{promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "flagship_history_lost_total", Help: "Revisions and deletions that were not recorded, or without their content.",
	}, []string{"of", "reason"})}
}

// Count adds n losses.
func (l Losses) Count(of, reason string, n int) { l.total.WithLabelValues(of, reason).Add(float64(n)) }
