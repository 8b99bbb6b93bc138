package fairqueue

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Order is the order of a queue of package workqueue in which classes take turns: one request of each; and in each class the groups: one request
// of each, those of a group as they came. It is for queues without priorities, whose clock is injected: the delays of a Queue follow the real
// one. A request is added when it is ready, so that one with a delay has no turn before. It is safe for concurrent use, for Charge: the queue calls
// the others with its lock held.
type Order[T comparable] struct {
	mu    sync.Mutex
	place func(T) Place
	lines map[Place][]T
	// classes are those of lines, and groups the groups in each, the next one first.
	classes []string
	groups  map[string][]string
	// waiting has the place of each request.
	waiting map[T]Place
	// owed is how many turns a place leaves to others of its class.
	owed map[Place]int
}

// Place is where a request waits.
type Place struct{ Class, Group string }

var _ workqueue.Queue[string] = &Order[string]{}

// NewOrder makes an empty order; place names where a request waits.
func NewOrder[T comparable](place func(T) Place) *Order[T] {
	return &Order[T]{place: place, lines: map[Place][]T{}, groups: map[string][]string{}, waiting: map[T]Place{}, owed: map[Place]int{}}
}

// Cost of requests in turns: one that takes longer than turnTime takes that many turns more. No group leaves more than maxOwed to others.
const (
	turnTime = 100 * time.Millisecond
	maxOwed  = 100
)

// Charge makes a group leave turns to the others of its class for a request that took a time. The shares of groups are then those of the time of
// workers: a large object takes as much of it as dozens of small ones.
func (o *Order[T]) Charge(place Place, took time.Duration) {
	turns := int(took / turnTime)
	if turns == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.groups[place.Class]) > 0 { // others wait, or more of the group
		o.owed[place] = min(o.owed[place]+turns, maxOwed)
	}
}

// Touch implements workqueue.Queue: a request that is added again keeps its turn, unless it has another place now.
func (o *Order[T]) Touch(item T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	place := o.waiting[item]
	if o.place(item) == place {
		return
	}
	if line := o.lines[place]; len(line) > 1 {
		at := slices.Index(line, item)
		o.lines[place] = slices.Delete(line, at, at+1)
	} else {
		delete(o.lines, place)
		o.groups[place.Class] = without(o.groups[place.Class], place.Group)
		if len(o.groups[place.Class]) == 0 {
			delete(o.groups, place.Class)
			o.classes = without(o.classes, place.Class)
		}
	}
	o.push(item)
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(names, func(other string) bool { return other == name })
}

// Push implements workqueue.Queue.
func (o *Order[T]) Push(item T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.push(item)
}

func (o *Order[T]) push(item T) {
	place := o.place(item)
	groups, waits := o.groups[place.Class]
	if !waits {
		o.classes = append(o.classes, place.Class)
	}
	line, waits := o.lines[place]
	if !waits {
		o.groups[place.Class] = append(groups, place.Group)
	}
	o.lines[place] = append(line, item)
	o.waiting[item] = place
}

// Len implements workqueue.Queue.
func (o *Order[T]) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting)
}

// Pop implements workqueue.Queue.
func (o *Order[T]) Pop() T {
	o.mu.Lock()
	defer o.mu.Unlock()
	class := o.classes[0]
	groups := o.groups[class]
	place := Place{class, groups[0]}
	for len(groups) > 1 && o.owed[place] > 0 {
		o.owed[place]--
		groups = append(groups[1:], place.Group)
		place.Group = groups[0]
	}
	line := o.lines[place]
	item := line[0]
	var none T
	line[0] = none // what it refers to is let go
	groups = groups[1:]
	if len(line) == 1 {
		delete(o.lines, place)
	} else {
		o.lines[place] = line[1:]
		groups = append(groups, place.Group)
	}
	o.classes = o.classes[1:]
	if len(groups) == 0 {
		delete(o.groups, class)
		maps.DeleteFunc(o.owed, func(of Place, _ int) bool { return of.Class == class }) // no request has waited for these turns
	} else {
		o.groups[class] = groups
		o.classes = append(o.classes, class)
	}
	delete(o.waiting, item)
	return item
}
