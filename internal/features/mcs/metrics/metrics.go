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

// Dispatch are what the loops for MultiClusterServices tell about their work.
type Dispatch struct {
	clock clock.PassiveClock
	// arrival is how long a changed record takes until one of its consumers has it.
	arrival prometheus.Histogram
	// endpoints are those in consumers, by record.
	Endpoints tally
	// underway are records that changed, and Works that carry them.
	Underway departures
}

// NewDispatch registers them, unless the registerer is nil.
func NewDispatch(r prometheus.Registerer, clock clock.PassiveClock) *Dispatch {
	with := promauto.With(r)
	m := &Dispatch{
		clock: clock,
		arrival: with.NewHistogram(prometheus.HistogramOpts{
			Name: "flagship_service_arrival_seconds", Buckets: travelTimes,
			Help: "Time from a provider's collected EndpointSlice changing until one consumer has it.",
		}),
	}
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "flagship_service_endpoints", Help: "Endpoints in consumers that came from other clusters, counted once in each.",
	}, m.Endpoints.Total)
	return m
}

// travelTimes go up to those of members that are away for a while.
var travelTimes = []float64{.01, .025, .05, .1, .2, .3, .5, 1, 2.5, 5, 15, 60, 300}

// Changed notes that a record changed.
func (m *Dispatch) Changed(record *workv1alpha1.Work) {
	m.Underway.leave(client.ObjectKeyFromObject(record), m.clock.Now())
}

// Sent notes that a Work is about to be written which carries a record. It returns false if the Work is under way already.
func (m *Dispatch) Sent(work, record types.NamespacedName) bool {
	since, known := m.Underway.since(record)
	return known && m.Underway.leave(work, since)
}

// Arrived notes that a consumer has what a Work carries.
func (m *Dispatch) Arrived(work *workv1alpha1.Work) {
	if since, known := m.Underway.since(client.ObjectKeyFromObject(work)); known {
		m.arrival.Observe(m.clock.Since(since).Seconds())
		m.Underway.End(client.ObjectKeyFromObject(work))
	}
}

func result(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

// Collect are what collecting tells about its work, wherever it runs.
type Collect struct {
	// seconds is how long a slice waits after it was seen in its provider until it is recorded.
	seconds *prometheus.HistogramVec
	// endpoints are those of providers, by slice.
	Endpoints tally
	// underway are slices that were seen changed.
	underway departures
	clock    clock.PassiveClock
}

// NewCollect registers them, unless the registerer is nil. waiting is how many slices wait for their turn.
func NewCollect(r prometheus.Registerer, clock clock.PassiveClock) *Collect {
	with := promauto.With(r)
	m := &Collect{
		clock: clock,
		seconds: with.NewHistogramVec(prometheus.HistogramOpts{
			Name: "flagship_collect_seconds", Buckets: travelTimes,
			Help: "Time from an EndpointSlice being seen changed in its provider until it is collected, by result: ok or failed.",
		}, []string{"result"}),
	}
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "flagship_collect_endpoints", Help: "Endpoints that are collected from providers.",
	}, m.Endpoints.Total)
	return m
}

// Seen notes that a slice of a member changed.
func (m *Collect) Seen(slice types.NamespacedName) {
	m.underway.leave(slice, m.clock.Now())
}

// Recorded notes that it was collected, or could not be.
func (m *Collect) Recorded(slice types.NamespacedName, err error) {
	if since, known := m.underway.since(slice); known {
		m.seconds.WithLabelValues(result(err)).Observe(m.clock.Since(since).Seconds())
	}
	if err == nil {
		m.underway.End(slice)
	}
}

// tally is a sum whose parts change one by one.
type tally struct {
	mu    sync.Mutex
	parts map[types.NamespacedName]int
	sum   int
}

func (t *tally) Set(part types.NamespacedName, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum += n - t.parts[part]
	if n == 0 {
		delete(t.parts, part)
		return
	}
	if t.parts == nil {
		t.parts = map[types.NamespacedName]int{}
	}
	t.parts[part] = n
}

func (t *tally) Total() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return float64(t.sum)
}

// departures are the moments from which on something is under way, by what it is.
type departures struct {
	mu sync.Mutex
	at map[types.NamespacedName]time.Time
}

// leave notes since when something is under way; false if it is already.
func (d *departures) leave(what types.NamespacedName, since time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at == nil {
		d.at = map[types.NamespacedName]time.Time{}
	}
	if _, already := d.at[what]; already {
		return false
	}
	d.at[what] = since
	return true
}

func (d *departures) since(what types.NamespacedName) (since time.Time, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, known = d.at[what]
	return since, known
}

func (d *departures) End(what types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.at, what)
}
