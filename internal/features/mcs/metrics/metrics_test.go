package metrics

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func work(name string) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "n", Name: name} }

// observed returns how many times a histogram measured, and their sum.
func observed(t *testing.T, r *prometheus.Registry, name, result string) (count uint64, sum float64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (result == "" || m.GetLabel()[0].GetValue() == result) {
				count, sum = count+m.GetHistogram().GetSampleCount(), sum+m.GetHistogram().GetSampleSum()
			}
		}
	}
	return count, sum
}

// TestDispatch: the time of each Work begins when its record changed, also if it changed again meanwhile, and is measured once.
func TestDispatch(t *testing.T) {
	clock, registry := clocktesting.NewFakePassiveClock(noon), prometheus.NewRegistry()
	m := NewDispatch(registry, clock)
	step := func() { clock.SetTime(clock.Now().Add(time.Second)) }
	expect := func(what string, count uint64, sum float64) {
		t.Helper()
		if n, s := observed(t, registry, "flagship_service_arrival_seconds", ""); n != count || s != sum {
			t.Errorf("%s: %d arrivals in %v s, want %d in %v", what, n, s, count, sum)
		}
	}
	if m.Sent(key("a"), key("record")) {
		t.Error("a Work of a record that did not change is measured")
	}
	m.Changed(work("record"))
	step()
	m.Changed(work("record"))
	if !m.Sent(key("a"), key("record")) || !m.Sent(key("b"), key("record")) || m.Sent(key("a"), key("record")) {
		t.Error("each Work of a record that changed is to be measured once")
	}
	m.Dispatched(key("record"))
	step()
	m.Arrived(work("a"))
	expect("after the first arrival", 1, 2)
	m.Arrived(work("a"))
	expect("after a second event of it", 1, 2)
	m.Deleted(work("b"))
	m.Arrived(work("b"))
	expect("after a Work went", 1, 2)
	if m.Sent(key("c"), key("record")) {
		t.Error("a record that is dispatched is measured until it changes")
	}
}

// TestCollect: a slice that could not be recorded goes on being measured until it is.
func TestCollect(t *testing.T) {
	clock, registry := clocktesting.NewFakePassiveClock(noon), prometheus.NewRegistry()
	m := NewCollect(registry, clock)
	m.Seen(key("slice"))
	for _, err := range []error{errors.New("conflict"), nil, nil} {
		clock.SetTime(clock.Now().Add(time.Second))
		m.Recorded(key("slice"), err)
	}
	if n, s := observed(t, registry, "flagship_collect_seconds", "failed"); n != 1 || s != 1 {
		t.Errorf("%d failures in %v s, want one after a second", n, s)
	}
	if n, s := observed(t, registry, "flagship_collect_seconds", "ok"); n != 1 || s != 2 {
		t.Errorf("%d records in %v s, want one after two seconds", n, s)
	}
}

// TestEndpoints: a part that changes replaces what it was, and one without endpoints is dropped.
func TestEndpoints(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewCollect(registry, clocktesting.NewFakePassiveClock(noon))
	for _, n := range []int{3, 5, 0} {
		m.Endpoints.Set(key("a"), n)
		m.Endpoints.Set(key("b"), 2)
		want := "# HELP flagship_collect_endpoints Endpoints that are collected from providers.\n# TYPE flagship_collect_endpoints gauge\nflagship_collect_endpoints " + map[int]string{3: "5", 5: "7", 0: "2"}[n] + "\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "flagship_collect_endpoints"); err != nil {
			t.Error(err)
		}
	}
	if len(m.Endpoints.parts) != 1 {
		t.Errorf("%d parts are kept, want that with endpoints", len(m.Endpoints.parts))
	}
}
