package controlloop

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/utils/clock"
)

// NewSet returns a set without loops. Its metrics go to the registerer; nil registers none.
func NewSet(r prometheus.Registerer, c clock.PassiveClock) *Set {
	s := &Set{clock: c, metrics: newMetrics(r), loops: map[string]*Loop{}}
	if r != nil {
		r.MustRegister(current{s})
	}
	return s
}

// metrics are those of loops with a work queue for each member, whose queues are added up, and of turns. Those of the other loops are
// controller-runtime's.
type metrics struct {
	reconciles    *prometheus.CounterVec
	seconds       *prometheus.HistogramVec
	adds, retries *prometheus.CounterVec
	latency       *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	with := promauto.With(r)
	labels := []string{"loop"}
	return &metrics{
		reconciles: with.NewCounterVec(prometheus.CounterOpts{
			Name: "flagship_loop_reconcile_total",
			Help: "Reconciles of loops with a work queue for each member, and turns of loops without a work queue, by result: success, error, panic, or postponed, as for a member that cannot be reached. Of all loops, panics outside of a reconcile, such as in an event handler.",
		}, []string{"loop", "result"}),
		seconds: with.NewHistogramVec(prometheus.HistogramOpts{
			Name: "flagship_loop_reconcile_seconds", Buckets: prometheus.DefBuckets, Help: "Time of one reconcile, or turn, of these loops.",
		}, labels),
		adds: with.NewCounterVec(prometheus.CounterOpts{
			Name: "flagship_loop_queue_adds_total", Help: "Objects that were added to these work queues.",
		}, labels),
		retries: with.NewCounterVec(prometheus.CounterOpts{
			Name: "flagship_loop_queue_retries_total", Help: "Objects that were added to these work queues again, after a failure or to be reconciled later.",
		}, labels),
		latency: with.NewHistogramVec(prometheus.HistogramOpts{
			Name: "flagship_loop_queue_seconds", Buckets: prometheus.DefBuckets, Help: "Time that an object waits in these work queues.",
		}, labels),
	}
}

func (m *metrics) reconciled(loop string, took time.Duration, err error) {
	result := "success"
	var panicked *PanicError
	switch {
	case errors.As(err, &panicked):
		result = "panic"
	case errors.Is(err, ErrPostponed):
		result = "postponed"
	case err != nil:
		result = "error"
	}
	m.reconciles.WithLabelValues(loop, result).Inc()
	m.seconds.WithLabelValues(loop).Observe(took.Seconds())
}

// panicked counts a panic outside of the reconciles of a loop.
func (l *Loop) panicked() { l.set.metrics.reconciles.WithLabelValues(l.name, "panic").Inc() }

// Queue measures the work queues of a loop, one for each member.
type Queue struct {
	length        func() int
	adds, retries prometheus.Counter
	latency       prometheus.Observer
}

// Queue measures the work queues of the loop; length is how many objects are in all of them.
func (l *Loop) Queue(length func() int) *Queue {
	m := l.set.metrics
	q := &Queue{
		length: length, adds: m.adds.WithLabelValues(l.name), retries: m.retries.WithLabelValues(l.name), latency: m.latency.WithLabelValues(l.name),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = q
	return q
}

// Added counts an object that was added.
func (q *Queue) Added() { q.adds.Inc() }

// Retried counts an object that was added again, after a failure or to be reconciled later.
func (q *Queue) Retried() { q.retries.Inc() }

// Waited measures how long an object waited for its reconcile.
func (q *Queue) Waited(d time.Duration) { q.latency.Observe(d.Seconds()) }

// current measures what the loops have at hand.
type current struct{ set *Set }

var (
	longestRunning = prometheus.NewDesc("flagship_loop_longest_running_seconds",
		"Age of the longest reconcile that has not returned, of every control loop; 0 if none runs.", []string{"loop"}, nil)
	queueDepth = prometheus.NewDesc("flagship_loop_queue_depth",
		"Objects in the work queues of loops with one for each member, those of members that cannot be reached included.", []string{"loop"}, nil)
	waitingForSlot = prometheus.NewDesc("flagship_loop_waiting_reconciles",
		"Reconciles of loops with a work queue for each member that wait because enough others compute.", nil, nil)
)

// Describe implements prometheus.Collector.
func (current) Describe(ch chan<- *prometheus.Desc) {
	ch <- longestRunning
	ch <- queueDepth
	ch <- waitingForSlot
}

// Collect implements prometheus.Collector.
func (c current) Collect(ch chan<- prometheus.Metric) {
	c.set.mu.Lock()
	limit := c.set.limit
	c.set.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(waitingForSlot, prometheus.GaugeValue, float64(limit.queued()))
	for _, l := range c.set.all() {
		age := 0.0
		if r, any := l.longest(); any {
			age = c.set.clock.Since(r.since).Seconds()
		}
		ch <- prometheus.MustNewConstMetric(longestRunning, prometheus.GaugeValue, age, l.name)
		l.mu.Lock()
		queue := l.queue
		l.mu.Unlock()
		if queue != nil {
			ch <- prometheus.MustNewConstMetric(queueDepth, prometheus.GaugeValue, float64(queue.length()), l.name)
		}
	}
}
