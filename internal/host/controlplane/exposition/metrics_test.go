package exposition

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestFamiliesOfSeveralRegistriesAreMerged(t *testing.T) {
	registry := func(samples map[string]float64, label string) prometheus.Gatherer {
		r := prometheus.NewRegistry()
		depth := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth"}, []string{label})
		r.MustRegister(depth)
		for value, n := range samples {
			depth.WithLabelValues(value).Set(n)
		}
		return r
	}
	found, err := families{
		registry(map[string]float64{"a": 1, "b": 2}, "name"), registry(map[string]float64{"a": 3, "c": 4}, "name"), registry(map[string]float64{"a": 5}, "controller"),
	}.Gather()
	if err != nil || len(found) != 1 {
		t.Fatalf("got %d families, %v", len(found), err)
	}
	got := map[string]float64{}
	for _, sample := range found[0].GetMetric() {
		got[sample.GetLabel()[0].GetName()+"="+sample.GetLabel()[0].GetValue()] = sample.GetGauge().GetValue()
	}
	if diff := cmp.Diff(map[string]float64{"name=a": 1, "name=b": 2, "name=c": 4, "controller=a": 5}, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func TestTheDepthOfAQueueIsThatOfAllPriorities(t *testing.T) {
	r := prometheus.NewRegistry()
	depth := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth"}, []string{"name", "priority"})
	r.MustRegister(depth)
	depth.WithLabelValues("propagate", "-1").Set(3)
	depth.WithLabelValues("propagate", "-2").Set(-1)
	depth.WithLabelValues("render", "0").Set(4)
	found, err := families{r}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, sample := range found[0].GetMetric() {
		got[sample.GetLabel()[0].GetValue()] = sample.GetGauge().GetValue()
	}
	if diff := cmp.Diff(map[string]float64{"propagate": 2, "render": 4}, got); diff != "" {
		t.Errorf("depths (-want +got):\n%s", diff)
	}
}
