package service

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flagship-k8s/flagship/internal/member"
)

// loopMetrics are what loops tell about their work.
type loopMetrics struct {
	// seconds is how long a look took, by loop and result.
	seconds *prometheus.HistogramVec
	queue   queues
	clock   clock.PassiveClock
}

// newLoopMetrics registers those of a group of loops, unless the registerer is nil. What says what the loops look at,
// waiting what waits for them.
func newLoopMetrics(r prometheus.Registerer, clock clock.PassiveClock, group, what, waiting string) *loopMetrics {
	with := promauto.With(r)
	m := &loopMetrics{clock: clock, seconds: with.NewHistogramVec(prometheus.HistogramOpts{
		Name: "flagship_" + group + "_seconds", Buckets: prometheus.DefBuckets,
		Help: "Time to bring " + what + " up to date, by loop and result: ok or failed.",
	}, []string{"loop", "result"})}
	with.NewGaugeFunc(prometheus.GaugeOpts{Name: "flagship_" + group + "_queue", Help: waiting + " that wait for their turn."}, m.queue.length)
	return m
}

// task is a task of lanes that tells how long it takes.
func (m *loopMetrics) task(loop string, task member.Task) member.Task {
	return func(ctx context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
		start := m.clock.Now()
		again, err := task(ctx, cluster, key)
		m.seconds.WithLabelValues(loop, result(err)).Observe(m.clock.Since(start).Seconds())
		return again, err
	}
}

// metrics are what the loops for MultiClusterServices tell about their work.
type metrics struct {
	*loopMetrics
	// arrival is how long a changed record takes until one of its consumers has it.
	arrival prometheus.Histogram
	// endpoints are those in consumers, by record.
	endpoints tally
	// underway are records that changed, and Works that carry them.
	underway departures
}

// newMetrics registers them, unless the registerer is nil.
func newMetrics(r prometheus.Registerer, clock clock.PassiveClock) *metrics {
	with := promauto.With(r)
	m := &metrics{
		loopMetrics: newLoopMetrics(r, clock, "service", "a MultiClusterService or a collected EndpointSlice", "MultiClusterServices and collected EndpointSlices"),
		arrival: with.NewHistogram(prometheus.HistogramOpts{
			Name: "flagship_service_arrival_seconds", Buckets: travelTimes,
			Help: "Time from a provider's collected EndpointSlice changing until one consumer has it.",
		}),
	}
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "flagship_service_endpoints", Help: "Endpoints in consumers that came from other clusters, counted once in each.",
	}, m.endpoints.total)
	return m
}

// travelTimes go up to those of members that are away for a while.
var travelTimes = []float64{.01, .025, .05, .1, .2, .3, .5, 1, 2.5, 5, 15, 60, 300}

// changed notes that a record changed.
func (m *metrics) changed(record metav1.Object) {
	m.underway.leave(keyOf(record), m.clock.Now())
}

// sent notes that a Work is about to be written which carries a record. It returns false if the Work is under way already.
func (m *metrics) sent(work, record types.NamespacedName) bool {
	since, known := m.underway.since(record)
	return known && m.underway.leave(work, since)
}

// arrived notes that a consumer has what a Work carries.
func (m *metrics) arrived(work metav1.Object) {
	if since, known := m.underway.since(keyOf(work)); known {
		m.arrival.Observe(m.clock.Since(since).Seconds())
		m.underway.end(keyOf(work))
	}
}

// timed is a loop that tells how long it takes.
type timed struct {
	reconcile.Reconciler
	loop    string
	metrics *loopMetrics
}

// Reconcile implements reconcile.Reconciler.
func (t timed) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	start := t.metrics.clock.Now()
	again, err := t.Reconciler.Reconcile(ctx, q)
	t.metrics.seconds.WithLabelValues(t.loop, result(err)).Observe(t.metrics.clock.Since(start).Seconds())
	return again, err
}

func result(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

// collectMetrics are what collecting tells about its work, wherever it runs.
type collectMetrics struct {
	// seconds is how long a slice waits after it was seen in its provider until it is recorded.
	seconds *prometheus.HistogramVec
	// endpoints are those of providers, by slice.
	endpoints tally
	// underway are slices that were seen changed.
	underway departures
	clock    clock.PassiveClock
}

// newCollectMetrics registers them, unless the registerer is nil. waiting is how many slices wait for their turn.
func newCollectMetrics(r prometheus.Registerer, clock clock.PassiveClock, waiting func() int) *collectMetrics {
	with := promauto.With(r)
	m := &collectMetrics{
		clock: clock,
		seconds: with.NewHistogramVec(prometheus.HistogramOpts{
			Name: "flagship_collect_seconds", Buckets: travelTimes,
			Help: "Time from an EndpointSlice being seen changed in its provider until it is collected, by result: ok or failed.",
		}, []string{"result"}),
	}
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "flagship_collect_queue", Help: "EndpointSlices that wait to be collected, those of members that are away included.",
	}, func() float64 { return float64(waiting()) })
	with.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "flagship_collect_endpoints", Help: "Endpoints that are collected from providers.",
	}, m.endpoints.total)
	return m
}

// seen notes that a slice of a member changed.
func (m *collectMetrics) seen(slice types.NamespacedName) {
	m.underway.leave(slice, m.clock.Now())
}

// recorded notes that it was collected, or could not be.
func (m *collectMetrics) recorded(slice types.NamespacedName, err error) {
	if since, known := m.underway.since(slice); known {
		m.seconds.WithLabelValues(result(err)).Observe(m.clock.Since(since).Seconds())
	}
	if err == nil {
		m.underway.end(slice)
	}
}

// queues are those of several loops.
type queues struct {
	mu  sync.Mutex
	all []interface{ Len() int }
}

// add counts what is in a queue.
func (q *queues) add(one interface{ Len() int }) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = append(q.all, one)
}

func (q *queues) length() float64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, one := range q.all {
		n += one.Len()
	}
	return float64(n)
}

// tally is a sum whose parts change one by one.
type tally struct {
	mu    sync.Mutex
	parts map[types.NamespacedName]int
	sum   int
}

func (t *tally) set(part types.NamespacedName, n int) {
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

func (t *tally) total() float64 {
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

func (d *departures) end(what types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.at, what)
}
