package exposition

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
)

// CapacityCollector reads what the embedded etcd has to store things when metrics are read.
type CapacityCollector struct {
	capacity                                  func() (etcd.Capacity, bool)
	full, free, compactions, defragmentations *prometheus.Desc
}

var _ prometheus.Collector = &CapacityCollector{}

// NewCapacityCollector makes one. Capacity returns false for an external etcd.
func NewCapacityCollector(capacity func() (etcd.Capacity, bool)) *CapacityCollector {
	result := []string{"result"}
	return &CapacityCollector{
		capacity: capacity,
		full:     prometheus.NewDesc("flagship_storage_full", "1 while the database is at its quota and takes nothing but deletions.", nil, nil),
		free:     prometheus.NewDesc("flagship_storage_disk_free_bytes", "What the file system of the database has free. When it is full, the process ends.", nil, nil),
		compactions: prometheus.NewDesc("flagship_storage_compactions_total",
			"Compactions of the history before its time, because it filled the database, by result: done or failed.", result, nil),
		defragmentations: prometheus.NewDesc("flagship_storage_defragmentations_total",
			"Defragmentations of the database, which answers nothing meanwhile, by result: done or failed.", result, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *CapacityCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.full, c.free, c.compactions, c.defragmentations} {
		out <- d
	}
}

// Collect implements prometheus.Collector. There are no samples of an external etcd.
func (c *CapacityCollector) Collect(out chan<- prometheus.Metric) {
	capacity, known := c.capacity()
	if !known {
		return
	}
	full := 0.0
	if capacity.Full {
		full = 1
	}
	out <- prometheus.MustNewConstMetric(c.full, prometheus.GaugeValue, full)
	if capacity.Free >= 0 {
		out <- prometheus.MustNewConstMetric(c.free, prometheus.GaugeValue, float64(capacity.Free))
	}
	for _, counter := range []struct {
		desc         *prometheus.Desc
		done, failed int64
	}{{c.compactions, capacity.Compacted, capacity.CompactionFailed}, {c.defragmentations, capacity.Defragmented, capacity.DefragmentationFailed}} {
		out <- prometheus.MustNewConstMetric(counter.desc, prometheus.CounterValue, float64(counter.done), "done")
		out <- prometheus.MustNewConstMetric(counter.desc, prometheus.CounterValue, float64(counter.failed), "failed")
	}
}
