package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// times include those of members that are not reachable for a while.
var times = []float64{.01, .025, .05, .1, .2, .3, .5, 1, 2.5, 5, 15, 60, 300}

// Dispatch measures the way of slices from records to consumers.
type Dispatch struct {
	// Endpoints are those in consumers, by record.
	Endpoints Sum
	arrival   prometheus.Histogram
	// underway has the records that changed, and the Works that carry them.
	underway starts
}

// NewDispatch registers the metrics, unless the registerer is nil.
func NewDispatch(r prometheus.Registerer, clock clock.PassiveClock) *Dispatch {
	with := promauto.With(r)
	m := &Dispatch{
		underway: starts{clock: clock, at: map[types.NamespacedName]time.Time{}},
		arrival: with.NewHistogram(prometheus.HistogramOpts{
			Name: "flagship_service_arrival_seconds", Buckets: times,
			Help: "Time from a provider's collected EndpointSlice changing until one consumer has it.",
		}),
	}
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "flagship_service_endpoints", Help: "Endpoints in consumers that came from other clusters, counted once in each.",
	}, m.Endpoints.Total)
	return m
}

// Changed is called for a record that changed.
func (m *Dispatch) Changed(record *workv1alpha1.Work) {
	m.underway.start(client.ObjectKeyFromObject(record), m.underway.clock.Now())
}

// Sent is called before a Work is written that carries a record. It returns false if nothing is to be measured, or the Work is
// underway already.
func (m *Dispatch) Sent(work, record types.NamespacedName) bool {
	since, known := m.underway.since(record)
	return known && m.underway.start(work, since)
}

// Dispatched is called when a record or Work is not underway any more.
func (m *Dispatch) Dispatched(key types.NamespacedName) { m.underway.end(key) }

// Arrived is called when a consumer has what a Work carries.
func (m *Dispatch) Arrived(work *workv1alpha1.Work) {
	m.underway.observe(client.ObjectKeyFromObject(work), m.arrival)
	m.underway.end(client.ObjectKeyFromObject(work))
}

// Deleted is called for a record or Work that is gone.
func (m *Dispatch) Deleted(work *workv1alpha1.Work) { m.underway.end(client.ObjectKeyFromObject(work)) }

// Collect measures the way of slices from providers to records.
type Collect struct {
	// Endpoints are those of providers, by slice.
	Endpoints Sum
	seconds   *prometheus.HistogramVec
	underway  starts
}

// NewCollect registers the metrics, unless the registerer is nil.
func NewCollect(r prometheus.Registerer, clock clock.PassiveClock) *Collect {
	with := promauto.With(r)
	m := &Collect{
		underway: starts{clock: clock, at: map[types.NamespacedName]time.Time{}},
		seconds: with.NewHistogramVec(prometheus.HistogramOpts{
			Name: "flagship_collect_seconds", Buckets: times,
			Help: "Time from an EndpointSlice being seen changed in its provider until it is collected, by result: ok or failed.",
		}, []string{"result"}),
	}
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "flagship_collect_endpoints", Help: "Endpoints that are collected from providers.",
	}, m.Endpoints.Total)
	return m
}

// Seen is called for a slice of a member that changed.
func (m *Collect) Seen(slice types.NamespacedName) { m.underway.start(slice, m.underway.clock.Now()) }

// Recorded is called when it was recorded, or could not be.
func (m *Collect) Recorded(slice types.NamespacedName, err error) {
	if err != nil {
		m.underway.observe(slice, m.seconds.WithLabelValues("failed"))
		return
	}
	m.underway.observe(slice, m.seconds.WithLabelValues("ok"))
	m.underway.end(slice)
}

// Sum is a sum whose parts change one by one.
type Sum struct {
	mu    sync.Mutex
	parts map[types.NamespacedName]int
	sum   int
}

// Set changes one part.
func (s *Sum) Set(part types.NamespacedName, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum += n - s.parts[part]
	if n == 0 {
		delete(s.parts, part)
		return
	}
	if s.parts == nil {
		s.parts = map[types.NamespacedName]int{}
	}
	s.parts[part] = n
}

// Total returns the sum.
func (s *Sum) Total() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.sum)
}

// starts are the times at which something began that is not finished.
type starts struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	at    map[types.NamespacedName]time.Time
}

// start returns false if the key is there already.
func (s *starts) start(key types.NamespacedName, since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, already := s.at[key]; already {
		return false
	}
	s.at[key] = since
	return true
}

func (s *starts) since(key types.NamespacedName) (since time.Time, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, known = s.at[key]
	return since, known
}

func (s *starts) observe(key types.NamespacedName, to prometheus.Observer) {
	if since, known := s.since(key); known {
		to.Observe(s.clock.Since(since).Seconds())
	}
}

func (s *starts) end(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.at, key)
}
