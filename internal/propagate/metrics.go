package propagate

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are what this room tells about its work.
type metrics struct {
	// seconds is how long a look at a template took, by result.
	seconds *prometheus.HistogramVec
}

// newMetrics registers them, unless the registerer is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{seconds: promauto.With(r).NewHistogramVec(prometheus.HistogramOpts{
		Name: "flagship_propagate_seconds", Help: "Time to bring claim and binding of a template up to date, by result: ok or failed.", Buckets: prometheus.DefBuckets,
	}, []string{"result"})}
}

// took notes that something was looked at, and what came of it.
func (m *metrics) took(d time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.seconds.WithLabelValues(result).Observe(d.Seconds())
}
