package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// Phases of scheduling one binding.
const (
	PhaseDecide = "decide"
	PhaseWrite  = "write"
)

// Metrics are those of the scheduler.
type Metrics struct {
	attempts *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// New registers the scheduler's metrics, unless the registerer is nil.
func New(r prometheus.Registerer, pending func() int) *Metrics {
	with := promauto.With(r)
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "flagship_schedule_pending",
		Help: "Bindings that wait for a change of the clusters, since they have no place, fewer replicas than wanted, or not the preferred clusters.",
	}, func() float64 { return float64(pending()) })
	return &Metrics{
		attempts: with.NewCounterVec(prometheus.CounterOpts{
			Name: "flagship_schedule_attempts_total",
			Help: "Scheduling decisions, by result: scheduled, partial, unschedulable or error; and reason: that of the condition Scheduled.",
		}, []string{"result", "reason"}),
		seconds: with.NewHistogramVec(prometheus.HistogramOpts{
			Name: "flagship_schedule_seconds", Help: "Time of scheduling one binding, by phase: decide or write.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16), // to 3 s
		}, []string{"phase"}),
	}
}

// Decided counts a decision; nil is one that an error prevented.
func (m *Metrics) Decided(d *decision.Decision) {
	switch {
	case d == nil:
		m.attempts.WithLabelValues("error", workv1alpha2.BindingReasonSchedulerError).Inc()
	case d.Failure != nil && d.Failure.Reason == workv1alpha2.BindingReasonSchedulerError:
		m.attempts.WithLabelValues("error", d.Failure.Reason).Inc()
	case d.Failure != nil:
		m.attempts.WithLabelValues("unschedulable", d.Failure.Reason).Inc()
	case d.Missing > 0:
		m.attempts.WithLabelValues("partial", workv1alpha2.BindingReasonSuccess).Inc()
	default:
		m.attempts.WithLabelValues("scheduled", workv1alpha2.BindingReasonSuccess).Inc()
	}
}

// Took measures a phase.
func (m *Metrics) Took(phase string, d time.Duration) {
	m.seconds.WithLabelValues(phase).Observe(d.Seconds())
}
