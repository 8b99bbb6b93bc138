package limit

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// shown bounds the metrics: the namespaces that have used most of their limits.
const shown = 100

var _ prometheus.Collector = &collector{}

// collector reads the usage when metrics are read.
type collector struct {
	limiter                       *Limiter
	objects, bytes, used, storage *prometheus.Desc
}

func (l *Limiter) register(r prometheus.Registerer) {
	l.refusals = promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "flagship_namespace_limit_refusals_total",
		Help: "Writes that were refused because the namespace is at a limit, by limit: objects or bytes.",
	}, []string{"limit"})
	if r == nil {
		return
	}
	label := []string{"namespace"}
	r.MustRegister(&collector{
		limiter: l,
		objects: prometheus.NewDesc("flagship_namespace_objects",
			"Objects that are stored for a namespace, Works included, of the 100 namespaces that have used most of their limits.", label, nil),
		bytes: prometheus.NewDesc("flagship_namespace_bytes",
			"Bytes that are stored for a namespace, Works included, of the 100 namespaces that have used most of their limits.", label, nil),
		used: prometheus.NewDesc("flagship_namespace_limit_used_ratio",
			"Share of its limits that a namespace has used, of the 100 namespaces with the largest; 1 at a limit.", label, nil),
		storage: prometheus.NewDesc("flagship_storage_used_ratio",
			"Size of the database of etcd in relation to its quota; at 1 nothing can be written. Absent if it is not known, and in replicas that do not lead.", nil, nil),
	})
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.objects, c.bytes, c.used, c.storage} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	standings := c.limiter.all()
	slices.SortFunc(standings, func(a, b standing) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(b.usage.Bytes, a.usage.Bytes), cmp.Compare(a.namespace, b.namespace))
	})
	for _, s := range standings[:min(len(standings), shown)] {
		out <- prometheus.MustNewConstMetric(c.objects, prometheus.GaugeValue, float64(s.usage.Objects), s.namespace)
		out <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(s.usage.Bytes), s.namespace)
		out <- prometheus.MustNewConstMetric(c.used, prometheus.GaugeValue, s.share, s.namespace)
	}
	if share := c.limiter.storageShare.Load(); share != nil {
		out <- prometheus.MustNewConstMetric(c.storage, prometheus.GaugeValue, *share)
	}
}
