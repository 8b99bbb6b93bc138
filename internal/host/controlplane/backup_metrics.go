package controlplane

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flagship-k8s/flagship/internal/host/backup"
)

// backupCollector reads when the last backup was made when metrics are read: another process makes it.
type backupCollector struct{ dataDir string }

var _ prometheus.Collector = backupCollector{}

func lastBackup() *prometheus.Desc {
	return prometheus.NewDesc("flagship_backup_last_timestamp_seconds",
		"When the last complete backup of this data directory was begun, in seconds since 1970; absent if none is known.", nil, nil)
}

// Describe implements prometheus.Collector.
func (backupCollector) Describe(out chan<- *prometheus.Desc) { out <- lastBackup() }

// Collect implements prometheus.Collector.
func (c backupCollector) Collect(out chan<- prometheus.Metric) {
	if at, known := backup.Last(c.dataDir); known {
		out <- prometheus.MustNewConstMetric(lastBackup(), prometheus.GaugeValue, float64(at.Unix()))
	}
}
