package controlplane

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// metricsPath has everything: what the API server, client-go and controller-runtime measure in this process, and the
	// control plane's own metrics.
	metricsPath = "/metrics"
	// ownMetricsPath has the control plane's own metrics only.
	ownMetricsPath = "/metrics/flagship"
)

func metricsPages(own prometheus.Gatherer) map[string]http.Handler {
	all := families{legacyregistry.DefaultGatherer, ctrlmetrics.Registry, own}
	return map[string]http.Handler{
		metricsPath:    promhttp.HandlerFor(all, promhttp.HandlerOpts{}),
		ownMetricsPath: promhttp.HandlerFor(own, promhttp.HandlerOpts{}),
	}
}

// families gathers from several registries. Each of the first two has metrics of the Go runtime and the process, which
// prometheus.Gatherers would refuse as duplicates; a family of a name is taken from the first registry that has it.
type families []prometheus.Gatherer

// Gather implements prometheus.Gatherer.
func (g families) Gather() ([]*dto.MetricFamily, error) {
	var all []*dto.MetricFamily
	var faults []error
	seen := map[string]bool{}
	for _, gatherer := range g {
		found, err := gatherer.Gather()
		faults = append(faults, err)
		for _, family := range found {
			if !seen[family.GetName()] {
				seen[family.GetName()] = true
				all = append(all, family)
			}
		}
	}
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all, errors.Join(faults...)
}
