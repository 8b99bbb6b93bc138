package loops

import (
	"cmp"
	"container/heap"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// Queue has the requests of one loop. Unlike that of a running loop it is read by one goroutine, never waits, and is ordered: by priority,
// then by name, so that the same preview gives the same answer.
type Queue[R comparable] struct {
	waiting map[R]*ranked[R]
	order   heapOf[R]
	// salt makes the order another one.
	salt string
	// delayed are added again when nothing else is left; the times are those from which they have something to do.
	delayed map[R]time.Time
	now     func() time.Time
}

// ranked is a request that waits.
type ranked[R comparable] struct {
	request  R
	name     string
	priority int
	place    int
}

// heapOf is a heap of requests, the next one first.
type heapOf[R comparable] []*ranked[R]

// Len implements heap.Interface.
func (h heapOf[R]) Len() int { return len(h) }

// Less implements heap.Interface.
func (h heapOf[R]) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[j].priority, h[i].priority), strings.Compare(h[i].name, h[j].name)) < 0
}

// Swap implements heap.Interface.
func (h heapOf[R]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *heapOf[R]) Push(x any) {
	r := x.(*ranked[R])
	r.place = len(*h)
	*h = append(*h, r)
}

// Pop implements heap.Interface.
func (h *heapOf[R]) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

var _ priorityqueue.PriorityQueue[string] = &Queue[string]{}

// NewQueue returns an empty queue of a loop with a clock. With a salt, requests of a priority are in an order that follows from the salt, not in that of their
// names.
func NewQueue[R comparable](salt string, clk clock.PassiveClock) *Queue[R] {
	return &Queue[R]{salt: salt, now: clk.Now, waiting: map[R]*ranked[R]{}, delayed: map[R]time.Time{}}
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *Queue[R]) AddWithOpts(o priorityqueue.AddOpts, items ...R) {
	priority := 0
	if o.Priority != nil {
		priority = *o.Priority
	}
	for _, item := range items {
		if o.After > 0 || o.RateLimited {
			due := q.now().Add(o.After)
			if had, ok := q.delayed[item]; !ok || due.Before(had) {
				q.delayed[item] = due
			}
			continue
		}
		had := q.waiting[item]
		switch {
		case had == nil:
			had = &ranked[R]{request: item, name: q.name(item), priority: priority}
			q.waiting[item] = had
			heap.Push(&q.order, had)
		case had.priority < priority:
			had.priority = priority
			heap.Fix(&q.order, had.place)
		}
	}
}

func (q *Queue[R]) name(item R) string {
	if q.salt == "" {
		return fmt.Sprint(item)
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Append([]byte(q.salt), item)))
}

// next removes the first request.
func (q *Queue[R]) next() (item R, ok bool) {
	if len(q.order) == 0 {
		return item, false
	}
	first := heap.Pop(&q.order).(*ranked[R])
	delete(q.waiting, first.request)
	return first.request, true
}

// resume adds the requests that were delayed.
func (q *Queue[R]) resume() {
	for item := range q.delayed {
		q.AddWithOpts(priorityqueue.AddOpts{}, item)
	}
	clear(q.delayed)
}

// Next is the earliest time at which a delayed request has something to do; false if none is delayed.
func (q *Queue[R]) Next() (earliest time.Time, ok bool) {
	for _, due := range q.delayed {
		if !ok || due.Before(earliest) {
			earliest, ok = due, true
		}
	}
	return earliest, ok
}

// clear drops all requests.
func (q *Queue[R]) clear() {
	clear(q.waiting)
	clear(q.delayed)
	q.order = nil
}

// Add implements workqueue.TypedInterface.
func (q *Queue[R]) Add(item R) { q.AddWithOpts(priorityqueue.AddOpts{}, item) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *Queue[R]) AddAfter(item R, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, item)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *Queue[R]) AddRateLimited(item R) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, item)
}

// Get implements workqueue.TypedInterface.
func (q *Queue[R]) Get() (item R, shutdown bool) {
	item, ok := q.next()
	return item, !ok
}

// GetWithPriority implements priorityqueue.PriorityQueue.
func (q *Queue[R]) GetWithPriority() (item R, priority int, shutdown bool) {
	item, ok := q.next()
	return item, 0, !ok
}

// Len implements workqueue.TypedInterface.
func (q *Queue[R]) Len() int { return len(q.waiting) }

// Done implements workqueue.TypedInterface.
func (*Queue[R]) Done(R) {}

// Forget implements workqueue.TypedRateLimitingInterface.
func (*Queue[R]) Forget(R) {}

// NumRequeues implements workqueue.TypedRateLimitingInterface.
func (*Queue[R]) NumRequeues(R) int { return 0 }

// ShutDown implements workqueue.TypedInterface.
func (*Queue[R]) ShutDown() {}

// ShutDownWithDrain implements workqueue.TypedInterface.
func (*Queue[R]) ShutDownWithDrain() {}

// ShuttingDown implements workqueue.TypedInterface.
func (*Queue[R]) ShuttingDown() bool { return false }
