package objects

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// writeMetrics count the writes to members, by operation and result, and the namespaces that were left in members, by reason.
type writeMetrics struct{ writes, spared *prometheus.CounterVec }

func newWriteMetrics(r prometheus.Registerer) *writeMetrics {
	with := promauto.With(r)
	return &writeMetrics{
		writes: with.NewCounterVec(prometheus.CounterOpts{
			Name: "flagship_apply_writes_total",
			Help: "Writes to members, by operation: apply, delete or release; and result: ok or failed.",
		}, []string{"operation", "result"}),
		spared: with.NewCounterVec(prometheus.CounterOpts{
			Name: "flagship_apply_namespaces_released_total",
			Help: "Namespaces that were left in members instead of being deleted, by reason: occupied, by what the control plane did not make, or unknown, since not every kind could be listed.",
		}, []string{"reason"}),
	}
}

// wrote counts a write to a member.
func (m *writeMetrics) wrote(operation string, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.writes.WithLabelValues(operation, result).Inc()
}
