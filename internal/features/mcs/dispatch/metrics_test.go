package dispatch

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/features/mcs/metrics"
)

// TestArrivalIsMeasuredFromTheChange: a reconcile without a write starts no measurement, so that the next one is measured
// from its own change.
func TestArrivalIsMeasuredFromTheChange(t *testing.T) {
	mcs := exposed(networkingv1alpha1.ExposureTypeCrossCluster)
	record := fullRecord(t, "a", mcs)
	h := newDispatching(t, mcs, record, registeredCluster("a"), registeredCluster("b"))
	registry := prometheus.NewRegistry()
	h.dispatcher.metrics = metrics.NewDispatch(registry, h.clock)
	arrivals := func() (count uint64, sum float64) {
		t.Helper()
		families := must(registry.Gather())
		for _, f := range families {
			if f.GetName() == "flagship_service_arrival_seconds" {
				return f.GetMetric()[0].GetHistogram().GetSampleCount(), f.GetMetric()[0].GetHistogram().GetSampleSum()
			}
		}
		t.Fatal("nothing is said of arrivals")
		return 0, 0
	}
	work := must(hubclient.GetWork(t.Context(), h.Client, client.ObjectKeyFromObject(record)))
	travel := func(change func()) {
		t.Helper()
		h.dispatcher.metrics.Changed(record)
		change()
		h.run(t, record)
		h.clock.Step(2 * time.Second)
		work = must(hubclient.GetWork(t.Context(), h.Client, mcswork.DispatchedKey("a", "b", client.ObjectKeyFromObject(full()))))
		h.dispatcher.metrics.Arrived(work)
	}
	travel(func() {})
	if count, sum := arrivals(); count != 1 || sum != 2 {
		t.Errorf("%d arrivals took %v s, want one of 2 s", count, sum)
	}
	h.dispatcher.metrics.Changed(record)
	h.run(t, record) // nothing to write
	h.clock.Step(time.Hour)
	travel(func() {
		if err := h.Client.Delete(t.Context(), work); err != nil {
			t.Fatal(err)
		}
		gone := must(hubclient.GetWork(t.Context(), h.Client, client.ObjectKeyFromObject(work))).DeepCopy()
		gone.Finalizers = nil
		if err := h.Client.Update(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	})
	if count, sum := arrivals(); count != 2 || sum != 4 {
		t.Errorf("%d arrivals took %v s, want two of 2 s each", count, sum)
	}
	if total := gauge(t, registry, "flagship_service_endpoints"); total != 2 {
		t.Errorf("%v endpoints are in consumers, want 2", total)
	}
}

func gauge(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	for _, f := range must(registry.Gather()) {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
