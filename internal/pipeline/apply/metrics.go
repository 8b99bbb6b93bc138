package apply

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
)

// metrics are what this room tells about its work.
type metrics struct {
	// writes counts what was asked of members, by operation and result.
	writes *prometheus.CounterVec
	// spared counts namespaces that were left in members, by reason.
	spared *prometheus.CounterVec
	// engaged is 1 while the brake of a cluster is engaged, and waiting how many Works wait for it.
	engaged, waiting *prometheus.GaugeVec
}

// newMetrics registers them, unless the registerer is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	with := promauto.With(r)
	return &metrics{
		writes: with.NewCounterVec(prometheus.CounterOpts{
			Name: "flagship_apply_writes_total",
			Help: "Writes to members, by operation: apply, delete or release; and result: ok or failed.",
		}, []string{"operation", "result"}),
		spared: with.NewCounterVec(prometheus.CounterOpts{
			Name: "flagship_apply_namespaces_released_total",
			Help: "Namespaces that were left in members instead of being deleted, by reason: occupied, by what the control plane did not make, or unknown, since not every kind could be listed.",
		}, []string{"reason"}),
		engaged: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "flagship_brake_engaged",
			Help: "1 while removals and shrinkages in a cluster wait for a person, else 0; absent until that happens.",
		}, []string{"cluster"}),
		waiting: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "flagship_brake_waiting_works",
			Help: "Works whose removal or shrinkage waits for the brake of their cluster.",
		}, []string{"cluster"}),
	}
}

// braked notes the state of a cluster's brake. Nil: the cluster is gone.
func (m *metrics) braked(cluster string, state *brake.State) {
	if state == nil {
		m.engaged.DeleteLabelValues(cluster)
		m.waiting.DeleteLabelValues(cluster)
		return
	}
	on := 0.0
	if state.Cause != brake.None {
		on = 1
	}
	m.engaged.WithLabelValues(cluster).Set(on)
	m.waiting.WithLabelValues(cluster).Set(float64(state.Waiting))
}

// wrote notes a write to a member.
func (m *metrics) wrote(operation string, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.writes.WithLabelValues(operation, result).Inc()
}
