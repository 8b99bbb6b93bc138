package apply

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
)

// newArrival measures how long new Works take to their member.
func newArrival(r prometheus.Registerer) prometheus.Histogram {
	return promauto.With(r).NewHistogram(prometheus.HistogramOpts{
		Name:    "flagship_work_arrival_seconds",
		Help:    "Time from the creation of a Work until it is applied to its member for the first time. The API server notes creations by the second.",
		Buckets: []float64{1, 2, 5, 10, 30, 60, 120, 300, 900, 3600},
	})
}

// brakeMetrics are 1 while the brake of a cluster is engaged, and how many Works wait for it.
type brakeMetrics struct{ engaged, waiting *prometheus.GaugeVec }

// newBrakeMetrics registers them, unless the registerer is nil.
func newBrakeMetrics(r prometheus.Registerer) *brakeMetrics {
	with := promauto.With(r)
	return &brakeMetrics{
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

// braked records the state of a cluster's brake. Nil: the cluster is gone.
func (m *brakeMetrics) braked(cluster string, state *brake.State) {
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
