package evict

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// What happens to tasks, as the metric counts it.
const (
	ordered   = "ordered"
	finished  = "finished"
	cancelled = "cancelled"
	returned  = "returned"
)

type metrics struct {
	evictions *prometheus.CounterVec
	waiting   prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		evictions: promauto.With(r).NewCounterVec(prometheus.CounterOpts{
			Name: "flagship_evictions_total",
			Help: "Evictions of bindings from clusters, by what happened: ordered, finished, cancelled or returned.",
		}, []string{"step"}),
		waiting: promauto.With(r).NewGauge(prometheus.GaugeOpts{
			Name: "flagship_evictions_held",
			Help: "Bindings that would be evicted from clusters and wait for the rate, or for the safety of the fleet.",
		}),
	}
}

func (m *metrics) done(what string) { m.evictions.WithLabelValues(what).Inc() }

func conditionOf(b workv1alpha2.Binding) *metav1.Condition {
	return meta.FindStatusCondition(b.BindingStatus().Conditions, workv1alpha2.EvictionHeld)
}

// report sets or removes the condition EvictionHeld, and publishes an event when it is set. A new generation alone is not written.
func (p *pass) report(ctx context.Context) error {
	before := conditionOf(p.before)
	if before != nil && before.Reason == p.waits && before.Message == p.message {
		return nil
	}
	var want *metav1.Condition
	if p.waits != "" {
		want = new(workv1alpha2.EvictionHeldCondition(p.next.GetGeneration(), p.waits, p.message))
	}
	if err := hubclient.ApplyCondition(ctx, p.Client, fieldManager, p.before, workv1alpha2.EvictionHeld, want, p.now); err != nil {
		return err
	}
	if p.waits != "" {
		events.PublishBinding(p.Events, p.before, events.Warning, events.EvictWorkloadFromClusterFailed, p.message)
	}
	return nil
}
