package fairqueue

import (
	"math"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// Queue is a priority queue that is fair among groups. It is safe for concurrent use.
//
// Every request draws a turn when it is ready, which is at once or when its delay is over: the turn after the last of its group, or after
// the one that is being served if that is later. Turns of one priority are served in order. It is start-time fair queueing with requests
// of equal cost.
//
// The priority queue below it fixes the place of a request when it is added, but does not tell when a delay ends. So a request with a
// delay is added before all turns of its priority. GetWithPriority then receives it as soon as it is ready, draws its turn, and adds it
// again. What waits for its time therefore does not count in the line of its group.
type Queue[T comparable] struct {
	priorityqueue.PriorityQueue[T]
	group func(T) string

	mu      sync.Mutex
	waiting map[T]ticket
	classes map[int]*class // by priority
}

// ticket is the place of a request that waits. Its turn is zero until it is ready.
type ticket struct {
	priority int
	group    string
	turn     int64
}

// class has the requests of one priority. It is deleted when it is empty, so that turns begin at one again.
type class struct {
	served int64 // the highest turn that was
	lines  map[string]*line
}

// line is what is ready of one group at one priority.
type line struct {
	last    int64
	waiting int
}

// turnBits is how much of a rank the turn takes; the rest is the priority.
const turnBits = 32

var _ priorityqueue.PriorityQueue[string] = &Queue[string]{}

// New makes the queue of a loop. The name is that of its metrics; group names the group of a request.
func New[T comparable](name string, limiter workqueue.TypedRateLimiter[T], group func(T) string) *Queue[T] {
	return &Queue[T]{
		PriorityQueue: priorityqueue.New(name, func(o *priorityqueue.Opts[T]) { o.RateLimiter = limiter }),
		group:         group, waiting: map[T]ticket{}, classes: map[int]*class{},
	}
}

// Maker makes queues in the form that the options of a controller have.
func Maker[T comparable](group func(T) string) func(string, workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
	return func(name string, limiter workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
		return New(name, limiter, group)
	}
}

// Add implements workqueue.TypedInterface.
func (q *Queue[T]) Add(item T) { q.AddWithOpts(priorityqueue.AddOpts{}, item) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *Queue[T]) AddAfter(item T, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, item)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *Queue[T]) AddRateLimited(item T) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, item)
}

// AddWithOpts adds requests. One that waits already keeps its place, unless its priority rises.
func (q *Queue[T]) AddWithOpts(o priorityqueue.AddOpts, items ...T) {
	priority := 0
	if o.Priority != nil {
		priority = max(min(*o.Priority, math.MaxInt32), -math.MaxInt32)
	}
	for _, item := range items {
		rank := q.enter(item, priority, o.After <= 0 && !o.RateLimited).rank()
		ranked := o
		ranked.Priority = &rank
		q.PriorityQueue.AddWithOpts(ranked, item)
	}
}

// Get implements workqueue.TypedInterface.
func (q *Queue[T]) Get() (item T, shutdown bool) {
	item, _, shutdown = q.GetWithPriority()
	return item, shutdown
}

// GetWithPriority waits for the next request, and returns it with the priority it was added with.
func (q *Queue[T]) GetWithPriority() (item T, priority int, shutdown bool) {
	for {
		item, rank, shutdown := q.PriorityQueue.GetWithPriority()
		if shutdown {
			return item, 0, true
		}
		place, isNext := q.leave(item, rank)
		if isNext {
			return item, priorityOf(rank), false
		}
		q.PriorityQueue.AddWithOpts(priorityqueue.AddOpts{Priority: &place}, item)
		q.PriorityQueue.Done(item)
	}
}

// enter returns the ticket of a request, which draws its turn if it is ready.
func (q *Queue[T]) enter(item T, priority int, ready bool) ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	held, waits := q.waiting[item]
	if waits {
		priority, ready = max(priority, held.priority), ready || held.turn > 0
		if priority == held.priority && ready == (held.turn > 0) {
			return held
		}
		q.forget(held)
	}
	drawn := ticket{priority: priority, group: q.group(item)}
	if ready {
		drawn.turn = q.draw(drawn)
	}
	q.waiting[item] = drawn
	return drawn
}

// draw returns the next turn of the group that a ticket is of. It is called with the lock held.
func (q *Queue[T]) draw(of ticket) int64 {
	c := q.classes[of.priority]
	if c == nil {
		c = &class{lines: map[string]*line{}}
		q.classes[of.priority] = c
	}
	l := c.lines[of.group]
	if l == nil {
		l = &line{}
		c.lines[of.group] = l
	}
	l.last = max(l.last, c.served) + 1
	l.waiting++
	return l.last
}

// leave ends the wait of a request that the priority queue handed out at a rank. If its place is another one, since its delay ended or it was
// added again meanwhile, it returns the rank of that.
func (q *Queue[T]) leave(item T, rank int) (place int, isNext bool) {
	q.mu.Lock()
	held, waits := q.waiting[item]
	if !waits || held.turn == 0 || held.rank() != rank {
		q.mu.Unlock()
		return q.enter(item, priorityOf(rank), true).rank(), false
	}
	defer q.mu.Unlock()
	delete(q.waiting, item)
	c := q.classes[held.priority]
	c.served = max(c.served, held.turn)
	q.forget(held)
	return rank, true
}

// forget takes a ticket out of its line. It is called with the lock held.
func (q *Queue[T]) forget(held ticket) {
	if held.turn == 0 {
		return
	}
	c := q.classes[held.priority]
	l := c.lines[held.group]
	if l.waiting--; l.waiting == 0 {
		delete(c.lines, held.group)
	}
	if len(c.lines) == 0 {
		delete(q.classes, held.priority)
	}
}

// rank is priority and turn in one number: the higher is served first.
func (t ticket) rank() int {
	return t.priority<<turnBits - int(min(t.turn, 1<<turnBits-1))
}

func priorityOf(rank int) int { return -(-rank >> turnBits) }

// Enqueue adds requests with a priority, if the queue has priorities; those that controllers make by default in tests have none.
func Enqueue[T comparable](queue workqueue.TypedRateLimitingInterface[T], priority int, requests ...T) {
	EnqueueAfter(queue, priority, 0, requests...)
}

// EnqueueAfter is Enqueue after a pause.
func EnqueueAfter[T comparable](queue workqueue.TypedRateLimitingInterface[T], priority int, pause time.Duration, requests ...T) {
	if ranked, ok := queue.(priorityqueue.PriorityQueue[T]); ok {
		ranked.AddWithOpts(priorityqueue.AddOpts{Priority: &priority, After: pause}, requests...)
		return
	}
	for _, request := range requests {
		queue.AddAfter(request, pause)
	}
}
