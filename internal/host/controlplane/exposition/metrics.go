package exposition

import (
	"errors"
	"fmt"
	"maps"
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
	// Path has everything: what the API server, client-go and controller-runtime measure in this process, and the
	// control plane's own metrics.
	Path = "/metrics"
	// OwnPath has the control plane's own metrics only.
	OwnPath = "/metrics/flagship"
)

// Pages are the pages by path. Own has the control plane's own metrics.
func Pages(own prometheus.Gatherer) map[string]http.Handler {
	all := families{legacyregistry.DefaultGatherer, ctrlmetrics.Registry, own, embeddedEtcd(prometheus.DefaultGatherer)}
	return map[string]http.Handler{
		Path:    promhttp.HandlerFor(all, promhttp.HandlerOpts{}),
		OwnPath: promhttp.HandlerFor(own, promhttp.HandlerOpts{}),
	}
}

// embeddedEtcd leaves of a registry what etcd measures, whose packages register it in the default one.
func embeddedEtcd(from prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		found, err := from.Gather()
		return slices.DeleteFunc(found, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "etcd_") }), err
	})
}

// families gathers from several registries. Each of the first two has metrics of the Go runtime and the process, which
// prometheus.Gatherers would refuse as duplicates: of samples with the same name and labels, the first counts.
type families []prometheus.Gatherer

// Gather implements prometheus.Gatherer.
func (g families) Gather() ([]*dto.MetricFamily, error) {
	byName := map[string]*dto.MetricFamily{}
	seen := map[string]bool{}
	var faults []error
	for _, gatherer := range g {
		found, err := gatherer.Gather()
		faults = append(faults, err)
		for _, family := range found {
			all := byName[family.GetName()]
			if all == nil {
				all = &dto.MetricFamily{Name: family.Name, Help: family.Help, Type: family.Type, Unit: family.Unit}
				byName[family.GetName()] = all
			}
			if all.GetType() != family.GetType() {
				continue
			}
			for _, sample := range withoutPriority(family) {
				if key := keyOf(family, sample); !seen[key] {
					seen[key] = true
					all.Metric = append(all.Metric, sample)
				}
			}
		}
	}
	all := slices.SortedFunc(maps.Values(byName), func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all, errors.Join(faults...)
}

// withoutPriority returns the samples of a family, those of workqueue_depth added up over all priorities: fair queues give every
// object a priority of its own.
func withoutPriority(family *dto.MetricFamily) []*dto.Metric {
	if family.GetName() != "workqueue_depth" {
		return family.GetMetric()
	}
	var sums []*dto.Metric
	byKey := map[string]*dto.Metric{}
	for _, sample := range family.GetMetric() {
		labels := slices.DeleteFunc(slices.Clone(sample.GetLabel()), func(l *dto.LabelPair) bool { return l.GetName() == "priority" })
		sum := &dto.Metric{Label: labels, Gauge: &dto.Gauge{Value: new(float64)}}
		if present, ok := byKey[keyOf(family, sum)]; ok {
			sum = present
		} else {
			byKey[keyOf(family, sum)] = sum
			sums = append(sums, sum)
		}
		*sum.Gauge.Value += sample.GetGauge().GetValue()
	}
	return sums
}

// keyOf is the name and the labels of a sample, which a registry sorts.
func keyOf(family *dto.MetricFamily, sample *dto.Metric) string {
	var key strings.Builder
	key.WriteString(family.GetName())
	for _, label := range sample.GetLabel() {
		fmt.Fprintf(&key, "|%s=%q", label.GetName(), label.GetValue())
	}
	return key.String()
}
