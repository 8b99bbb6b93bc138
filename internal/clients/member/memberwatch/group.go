package memberwatch

import (
	"context"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// Group runs goroutines until it is closed. errgroup and sync.WaitGroup have neither a context for goroutines that start later
// nor a way to refuse them once the group ends.
type Group struct {
	mu      sync.Mutex
	closed  bool
	stop    context.CancelFunc
	derive  func() (context.Context, context.CancelFunc)
	running sync.WaitGroup
}

// NewGroup returns a group whose goroutines get contexts that end with ctx or with the group.
func NewGroup(ctx context.Context) *Group {
	ctx, stop := context.WithCancel(ctx)
	return &Group{stop: stop, derive: func() (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }}
}

// Go runs f in a goroutine, unless the group is closed. The returned function ends the context of f.
func (g *Group) Go(f func(context.Context)) (stop context.CancelFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return func() {}
	}
	ctx, stop := g.derive()
	g.running.Go(func() {
		defer stop()
		f(ctx)
	})
	return stop
}

// Follow is Run until the group is closed or the returned function is called.
func (g *Group) Follow(name string, source Source, store cache.ReflectorStore) (stop context.CancelFunc) {
	return g.Go(func(ctx context.Context) { Run(ctx, name, source, store) })
}

// Watch is a store, and what ends the watch that fills it.
type Watch[T any] struct {
	*Store[T]
	Stop context.CancelFunc
}

// Start is Group.Follow for a store.
func Start[T any](g *Group, name string, source Source, store *Store[T]) *Watch[T] {
	return &Watch[T]{Store: store, Stop: g.Follow(name, source, store)}
}

// Close ends the contexts of all goroutines and waits for them.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.stop()
	g.running.Wait()
}
