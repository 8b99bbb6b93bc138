package fairqueue

import (
	"cmp"
	"math"
	"slices"
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
//
// A group whose requests take long would have all workers after a while, since each that ends is followed by one of every group. So it may have
// three quarters of those that other groups do not have. Its next request is set aside until one of the group, or of another one, ends.
type Queue[T comparable] struct {
	priorityqueue.PriorityQueue[T]
	group func(T) string
	// workers is how many requests are handled at a time; 0 if groups may have all of them.
	workers int

	mu      sync.Mutex
	waiting map[T]ticket
	classes map[int]*class // by priority
	handled map[T]string   // the group of each request that is being handled
	busy    map[string]int // how many of each group are
	aside   map[string][]T // what waits for a worker of its group, in order
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
		handled: map[T]string{}, busy: map[string]int{}, aside: map[string][]T{},
	}
}

// Maker makes queues in the form that the options of a controller have.
func Maker[T comparable](group func(T) string) func(string, workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
	return func(name string, limiter workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
		return New(name, limiter, group)
	}
}

// Shared is Maker for a loop with so many workers, of which no group has all.
func Shared[T comparable](workers int, group func(T) string) func(string, workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
	return func(name string, limiter workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
		q := New(name, limiter, group)
		q.workers = workers
		return q
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
		place, then := q.leave(item, rank)
		switch then {
		case isNext:
			return item, priorityOf(rank), false
		case waitsOn:
			q.PriorityQueue.AddWithOpts(priorityqueue.AddOpts{Priority: &place}, item)
		}
		q.PriorityQueue.Done(item)
	}
}

// Done implements workqueue.TypedInterface.
func (q *Queue[T]) Done(item T) {
	following := q.end(item) // before another worker may get the request again
	q.PriorityQueue.Done(item)
	for next, rank := range following {
		q.PriorityQueue.AddWithOpts(priorityqueue.AddOpts{Priority: &rank}, next)
	}
}

// Len is how many requests wait.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.PriorityQueue.Len()
	for _, items := range q.aside {
		n += len(items)
	}
	return n
}

// mayHandle returns whether a group may have another worker. It is called with the lock held.
func (q *Queue[T]) mayHandle(group string) bool {
	busy := q.busy[group]
	return q.workers == 0 || busy == 0 || busy+1 <= 3*(q.workers-len(q.handled)-1)
}

// end frees the worker of a request, and returns what may be handled of each group that waits for one, with its rank.
func (q *Queue[T]) end(item T) map[T]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	group, known := q.handled[item]
	if !known {
		return nil
	}
	delete(q.handled, item)
	if q.busy[group]--; q.busy[group] == 0 {
		delete(q.busy, group)
	}
	var next map[T]int
	for group, items := range q.aside {
		if !q.mayHandle(group) {
			continue
		}
		if next == nil {
			next = map[T]int{}
		}
		next[items[0]] = q.waiting[items[0]].rank()
		q.takeUp(group, 0)
	}
	return next
}

// placeAside is where a request is, or belongs, among those of its group that are set aside. It is called with the lock held.
func (q *Queue[T]) placeAside(item T, held ticket) (at int, there bool) {
	items := q.aside[held.group]
	at, _ = slices.BinarySearchFunc(items, held.rank(), func(other T, rank int) int { return cmp.Compare(rank, q.waiting[other].rank()) })
	return at, at < len(items) && items[at] == item
}

// setAside keeps a request until its group may have another worker. It is called with the lock held.
func (q *Queue[T]) setAside(item T, held ticket) {
	if at, there := q.placeAside(item, held); !there { // else it was added again meanwhile
		q.aside[held.group] = slices.Insert(q.aside[held.group], at, item)
	}
}

// takeUp takes a request of a group out of those that are set aside. It is called with the lock held.
func (q *Queue[T]) takeUp(group string, at int) {
	items := q.aside[group]
	switch {
	case len(items) == 1:
		delete(q.aside, group)
	case at == 0: // the usual case, without a copy of the others
		q.aside[group] = items[1:]
	default:
		q.aside[group] = slices.Delete(items, at, at+1)
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

// step is what becomes of a request that the priority queue handed out.
type step int

const (
	isNext   step = iota // it is handled
	waitsOn              // at another place
	waitsFor             // for a worker
)

// leave ends the wait of a request that the priority queue handed out at a rank. If its place is another one, since its delay ended or it was
// added again meanwhile, it returns the rank of that.
func (q *Queue[T]) leave(item T, rank int) (place int, then step) {
	q.mu.Lock()
	held, waits := q.waiting[item]
	if !waits || held.turn == 0 || held.rank() != rank {
		q.mu.Unlock()
		return q.enter(item, priorityOf(rank), true).rank(), waitsOn
	}
	defer q.mu.Unlock()
	if !q.mayHandle(held.group) {
		q.setAside(item, held)
		return rank, waitsFor
	}
	if at, there := q.placeAside(item, held); there {
		q.takeUp(held.group, at)
	}
	delete(q.waiting, item)
	c := q.classes[held.priority]
	c.served = max(c.served, held.turn)
	q.forget(held)
	q.handled[item] = held.group
	q.busy[held.group]++
	return rank, isNext
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
