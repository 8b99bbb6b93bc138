package exposition

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// CertificateCollector reads when the certificates of a server end when metrics are read.
type CertificateCollector struct {
	// Ends are these times, by the names of the certificates.
	Ends func() map[string]time.Time
}

var _ prometheus.Collector = CertificateCollector{}

func certificateExpiry() *prometheus.Desc {
	return prometheus.NewDesc("flagship_certificate_expiry_timestamp_seconds",
		"When a certificate of the control plane expires, in seconds since 1970, by the name of its file; absent if that cannot be read.", []string{"name"}, nil)
}

// Describe implements prometheus.Collector.
func (CertificateCollector) Describe(out chan<- *prometheus.Desc) { out <- certificateExpiry() }

// Collect implements prometheus.Collector.
func (c CertificateCollector) Collect(out chan<- prometheus.Metric) {
	for name, end := range c.Ends() {
		out <- prometheus.MustNewConstMetric(certificateExpiry(), prometheus.GaugeValue, float64(end.Unix()), name)
	}
}
