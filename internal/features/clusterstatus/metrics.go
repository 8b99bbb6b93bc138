package clusterstatus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// fleetMetrics reads the state of all connections when metrics are collected.
type fleetMetrics struct {
	fleet             *member.Fleet
	reachable, flight *prometheus.Desc
}

func newFleetMetrics(fleet *member.Fleet) *fleetMetrics {
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"cluster"}, nil)
	}
	return &fleetMetrics{
		fleet:     fleet,
		reachable: describe("flagship_member_reachable", "1 while requests are sent to a member, 0 while its circuit breaker is open."),
		flight:    describe("flagship_member_requests_in_flight", "Requests to a member that are not answered yet, watches not counted."),
	}
}

// Describe implements prometheus.Collector.
func (m *fleetMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- m.reachable
	out <- m.flight
}

// Collect implements prometheus.Collector.
func (m *fleetMetrics) Collect(out chan<- prometheus.Metric) {
	for _, name := range m.fleet.Names() {
		conn, ok := m.fleet.Get(name)
		if !ok {
			continue // it left meanwhile
		}
		reachable := 1.0
		if conn.Health().Down {
			reachable = 0
		}
		out <- prometheus.MustNewConstMetric(m.reachable, prometheus.GaugeValue, reachable, name)
		out <- prometheus.MustNewConstMetric(m.flight, prometheus.GaugeValue, float64(conn.InFlight()), name)
	}
}
