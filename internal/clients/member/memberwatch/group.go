package memberwatch

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// pageSize bounds one answer of a plain list, for members that cannot stream one.
const pageSize = 500

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
func (g *Group) Follow(name string, lw cache.ListerWatcher, example runtime.Object, store cache.ReflectorStore) (stop context.CancelFunc) {
	return g.Go(func(ctx context.Context) { Run(ctx, name, lw, example, store) })
}

// Watch is a store, and what ends the watch that fills it.
type Watch[T any] struct {
	*Store[T]
	Stop context.CancelFunc
}

// Start is Group.Follow for a store.
func Start[T any](g *Group, name string, lw cache.ListerWatcher, example runtime.Object, store *Store[T]) *Watch[T] {
	return &Watch[T]{Store: store, Stop: g.Follow(name, lw, example, store)}
}

// ListWatch is for a reflector what a client lists and watches.
func ListWatch[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error), watch func(context.Context, metav1.ListOptions) (watch.Interface, error)) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) },
		WatchFuncWithContext: watch,
	}
}

// Selecting changes the options of every list and watch.
func Selecting(lw *cache.ListWatch, set func(*metav1.ListOptions)) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			set(&o)
			return lw.ListWithContextFunc(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			set(&o)
			return lw.WatchFuncWithContext(ctx, o)
		},
	}
}

// Close ends the contexts of all goroutines and waits for them.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.stop()
	g.running.Wait()
}

// longestPause is how long a watch that failed several times waits at most before it begins again.
const longestPause = 30 * time.Second

// Run lists and watches into a store until ctx ends. What fails is tried again with a backoff.
func Run(ctx context.Context, name string, lw cache.ListerWatcher, example runtime.Object, store cache.ReflectorStore) {
	r := cache.NewReflectorWithOptions(lw, example, store, cache.ReflectorOptions{
		Name: name, TypeDescription: name,
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 1, Cap: longestPause / 2, Steps: 16}, // the jitter doubles it at most
	})
	r.WatchListPageSize = pageSize
	r.RunWithContext(ctx)
}
