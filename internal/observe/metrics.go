package observe

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/flagship-k8s/flagship/internal/member"
)

// metrics are what this room tells about its work.
type metrics struct {
	// seconds is how long a look at a Work's objects took, by result.
	seconds *prometheus.HistogramVec
}

// newMetrics registers them, unless the registerer is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{seconds: promauto.With(r).NewHistogramVec(prometheus.HistogramOpts{
		Name: "flagship_observe_seconds", Buckets: prometheus.DefBuckets,
		Help: "Time to reflect the objects of a Work, by result: ok, failed, or unreachable.",
	}, []string{"result"})}
}

// took notes that a Work was looked at, and what came of it.
func (m *metrics) took(d time.Duration, err error) {
	result := "ok"
	var unavailable *member.UnavailableError
	switch {
	case errors.As(err, &unavailable):
		result = "unreachable"
	case err != nil:
		result = "failed"
	}
	m.seconds.WithLabelValues(result).Observe(d.Seconds())
}
