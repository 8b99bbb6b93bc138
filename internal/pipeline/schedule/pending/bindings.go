package pending

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// batchSize is how many bindings are requeued at once, so that thousands that fit nowhere do not keep a CPU busy at each change.
const batchSize = 500

// Bindings are those for which the clusters have no place, not enough, not the preferred one, or none for replicas that cannot run where
// they are. It is safe for concurrent use.
type Bindings struct {
	mu      sync.Mutex
	waiting map[types.NamespacedName]entry
	// left is what remains to be requeued, and again is true if all are to be requeued after that.
	left  []Binding
	again bool
}

type entry struct {
	priority int
	// added is whether Add was called, and stuck what SetStuck was called with.
	added, stuck bool
	// fits is since when the preferred term has fitted; zero if it does not.
	fits time.Time
	// next is when it is scheduled again if no event requeues it before.
	next time.Time
}

// Binding is one that waits, with the priority that its policy gave it.
type Binding struct {
	Key      types.NamespacedName
	Priority int
}

// NewBindings returns an empty set.
func NewBindings() *Bindings { return &Bindings{waiting: map[types.NamespacedName]entry{}} }

// Add adds a binding, or changes its priority.
func (b *Bindings) Add(key types.NamespacedName, priority int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.waiting[key]
	e.priority, e.added = priority, true
	b.waiting[key] = e
}

// Settle ends what Add began: the binding waits no longer, unless it is stuck.
func (b *Bindings) Settle(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.waiting[key]
	if !e.stuck {
		delete(b.waiting, key)
		return
	}
	b.waiting[key] = entry{priority: e.priority, stuck: true}
}

// SetStuck records whether a binding waits for a place of replicas that cannot run where they are. One that was added stays when they have
// found one.
func (b *Bindings) SetStuck(key types.NamespacedName, priority int, stuck bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.waiting[key]
	switch {
	case stuck:
		e.priority, e.stuck = priority, true
		b.waiting[key] = e
	case e.stuck && !e.added:
		delete(b.waiting, key)
	case e.stuck:
		e.stuck = false
		b.waiting[key] = e
	}
}

// SetNext records when a binding that waits is scheduled again if no event requeues it before.
func (b *Bindings) SetNext(key types.NamespacedName, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, ok := b.waiting[key]; ok {
		e.next = next
		b.waiting[key] = e
	}
}

// Next returns what SetNext recorded, zero if the binding does not wait.
func (b *Bindings) Next(key types.NamespacedName) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting[key].next
}

// Remove removes a binding, if it is there.
func (b *Bindings) Remove(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, key)
}

// Has returns whether a binding is there.
func (b *Bindings) Has(key types.NamespacedName) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.waiting[key]
	return ok
}

// Len returns how many there are.
func (b *Bindings) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// Fits records whether the preferred term fits a binding now, and returns for how long it has.
func (b *Bindings) Fits(key types.NamespacedName, fits bool, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.waiting[key]
	switch {
	case !fits:
		e.fits = time.Time{}
	case e.fits.IsZero():
		e.fits = now
	}
	b.waiting[key] = e
	if e.fits.IsZero() {
		return 0
	}
	return now.Sub(e.fits)
}

// RequeueAll has NextBatch return all bindings that wait.
func (b *Bindings) RequeueAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.again = true
}

// NextBatch returns which bindings to requeue now, the highest priority first, and whether there are more.
func (b *Bindings) NextBatch() (batch []Binding, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.left) == 0 && b.again {
		b.left, b.again = make([]Binding, 0, len(b.waiting)), false
		for key, e := range b.waiting {
			b.left = append(b.left, Binding{key, e.priority})
		}
		slices.SortFunc(b.left, func(x, y Binding) int { return cmp.Compare(y.Priority, x.Priority) })
	}
	n := min(len(b.left), batchSize)
	batch, b.left = b.left[:n], b.left[n:]
	return batch, len(b.left) > 0 || b.again
}
