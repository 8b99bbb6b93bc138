package fairqueue

import "k8s.io/client-go/util/workqueue"

// Order is the order of a queue of package workqueue in which groups take turns: one request of each, those of a group as they came. It is for
// queues without priorities, whose clock is injected: the delays of a Queue follow the real one. As workqueue demands, it is not safe for
// concurrent use: the queue calls it with its lock held.
type Order[T comparable] struct {
	group func(T) string
	lines map[string][]T
	// turns are the groups of lines, the next one first.
	turns   []string
	waiting int
}

var _ workqueue.Queue[string] = &Order[string]{}

// NewOrder makes an empty order; group names the group of a request.
func NewOrder[T comparable](group func(T) string) *Order[T] {
	return &Order[T]{group: group, lines: map[string][]T{}}
}

// Touch implements workqueue.Queue: a request that is added again keeps its place.
func (o *Order[T]) Touch(T) {}

// Push implements workqueue.Queue.
func (o *Order[T]) Push(item T) {
	group := o.group(item)
	line, waits := o.lines[group]
	if !waits {
		o.turns = append(o.turns, group)
	}
	o.lines[group] = append(line, item)
	o.waiting++
}

// Len implements workqueue.Queue.
func (o *Order[T]) Len() int { return o.waiting }

// Pop implements workqueue.Queue.
func (o *Order[T]) Pop() T {
	group := o.turns[0]
	o.turns = o.turns[1:]
	line := o.lines[group]
	item := line[0]
	var none T
	line[0] = none // what it refers to is let go
	if len(line) == 1 {
		delete(o.lines, group)
	} else {
		o.lines[group] = line[1:]
		o.turns = append(o.turns, group)
	}
	o.waiting--
	return item
}
