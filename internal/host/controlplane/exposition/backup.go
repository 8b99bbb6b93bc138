package exposition

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flagship-k8s/flagship/internal/host/backup"
)

// BackupCollector reads from a data directory when the last backup was made when metrics are read: another process makes it.
type BackupCollector struct{ DataDir string }

var _ prometheus.Collector = BackupCollector{}

func lastBackup() *prometheus.Desc {
	return prometheus.NewDesc("flagship_backup_last_timestamp_seconds",
		"When the last complete backup of this data directory was begun, in seconds since 1970; absent if none is known.", nil, nil)
}

// Describe implements prometheus.Collector.
func (BackupCollector) Describe(out chan<- *prometheus.Desc) { out <- lastBackup() }

// Collect implements prometheus.Collector.
func (c BackupCollector) Collect(out chan<- prometheus.Metric) {
	if at, known := backup.Last(c.DataDir); known {
		out <- prometheus.MustNewConstMetric(lastBackup(), prometheus.GaugeValue, float64(at.Unix()))
	}
}
