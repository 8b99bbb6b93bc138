// Package writes counts the writes to members.
package writes

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count the writes to members, by operation and result, and the namespaces that were left in members, by reason.
type Metrics struct {
	writes *prometheus.CounterVec
	// Spared counts the namespaces.
	Spared *prometheus.CounterVec
}

// New returns metrics that are registered unless the registerer is nil.
func New(r prometheus.Registerer) *Metrics {
	with := promauto.With(r)
	return &Metrics{
		writes: with.NewCounterVec(prometheus.CounterOpts{
			Name: "flagship_apply_writes_total",
			Help: "Writes to members, by operation: apply, delete or release; and result: ok or failed.",
		}, []string{"operation", "result"}),
		Spared: with.NewCounterVec(prometheus.CounterOpts{
			Name: "flagship_apply_namespaces_released_total",
			Help: "Namespaces that were left in members instead of being deleted, by reason: occupied, by what the control plane did not make, or unknown, since not every kind could be listed.",
		}, []string{"reason"}),
	}
}

// Wrote counts a write to a member.
func (m *Metrics) Wrote(operation string, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.writes.WithLabelValues(operation, result).Inc()
}
