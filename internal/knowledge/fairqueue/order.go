package fairqueue

import (
	"slices"

	"k8s.io/client-go/util/workqueue"
)

// Order is the order of a queue of package workqueue in which groups take turns: one request of each, those of a group as they came. It is for
// queues without priorities, whose clock is injected: the delays of a Queue follow the real one. As workqueue demands, it is not safe for
// concurrent use: the queue calls it with its lock held.
type Order[T comparable] struct {
	group func(T) string
	lines map[string][]T
	// turns are the groups of lines, the next one first.
	turns []string
	// waiting has the group of each request.
	waiting map[T]string
}

var _ workqueue.Queue[string] = &Order[string]{}

// NewOrder makes an empty order; group names the group of a request.
func NewOrder[T comparable](group func(T) string) *Order[T] {
	return &Order[T]{group: group, lines: map[string][]T{}, waiting: map[T]string{}}
}

// Touch implements workqueue.Queue: a request that is added again keeps its place, unless it is of another group now.
func (o *Order[T]) Touch(item T) {
	group := o.waiting[item]
	if o.group(item) == group {
		return
	}
	line := o.lines[group]
	if at := slices.Index(line, item); len(line) == 1 {
		delete(o.lines, group)
		o.turns = slices.DeleteFunc(o.turns, func(other string) bool { return other == group })
	} else {
		o.lines[group] = slices.Delete(line, at, at+1)
	}
	o.Push(item)
}

// Push implements workqueue.Queue.
func (o *Order[T]) Push(item T) {
	group := o.group(item)
	line, waits := o.lines[group]
	if !waits {
		o.turns = append(o.turns, group)
	}
	o.lines[group] = append(line, item)
	o.waiting[item] = group
}

// Len implements workqueue.Queue.
func (o *Order[T]) Len() int { return len(o.waiting) }

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
	delete(o.waiting, item)
	return item
}
