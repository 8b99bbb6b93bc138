package hub

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metricsPath is apart from the API server's own /metrics, whose registry belongs to the whole process.
const metricsPath = "/metrics/flagship"

// timed is a histogram of how long the looks of a room took. Rooms that have more to tell have metrics of their own.
func (o Options) timed(room string) func(time.Duration, error) {
	seconds := promauto.With(o.metrics).NewHistogramVec(prometheus.HistogramOpts{
		Name: "flagship_" + room + "_seconds", Help: "Time for one look of " + room + ", by result: ok or failed.", Buckets: prometheus.DefBuckets,
	}, []string{"result"})
	return func(took time.Duration, err error) {
		result := "ok"
		if err != nil {
			result = "failed"
		}
		seconds.WithLabelValues(result).Observe(took.Seconds())
	}
}
