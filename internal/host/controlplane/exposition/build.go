package exposition

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flagship-k8s/flagship/internal/knowledge/version"
)

// NewBuildInfo returns the metric of what this program was built from; its value is always 1.
func NewBuildInfo() prometheus.Collector {
	built := version.Get()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "flagship_build_info", Help: "Always 1, with what the program was built from.",
		ConstLabels: prometheus.Labels{"version": built.Version, "commit": built.Commit, "kubernetes": built.Kubernetes},
	}, func() float64 { return 1 })
}
