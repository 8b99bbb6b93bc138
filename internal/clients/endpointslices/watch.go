package endpointslices

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// Watches are the running watches of one control loop. The zero value is ready for use.
type Watches struct {
	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup
}

// Wait returns when all watches ended; from then on none starts. The context of the watches has to be done.
func (w *Watches) Wait() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.running.Wait()
}

func (w *Watches) run(watch func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.running.Go(watch)
	}
}

// Watch keeps what matters of a member's objects of one kind, in one namespace or all. It is not an informer, whose cache would
// keep the whole objects: it is the store of a reflector.
type Watch[T any] struct {
	keep     func(obj any) (key types.NamespacedName, item T, wanted bool, err error)
	same     func(a, b T) bool
	handlers Handlers
	stop     context.CancelFunc

	mu     sync.RWMutex
	items  map[types.NamespacedName]T
	synced bool
}

var _ cache.ReflectorStore = (*Watch[int])(nil)

// View is what matters of the objects of a kind.
type View[O metav1.Object, T any] struct {
	// Keep returns what matters of an object; false if the object does not matter.
	Keep func(O) (T, bool, error)
	// Same returns whether a change of an object does not matter. Nil compares by meaning.
	Same func(a, b T) bool
}

// Handlers are called for the events of a watch. They must not block.
type Handlers struct {
	// Changed is called for an object that came, changed or went.
	Changed func(types.NamespacedName)
	// Listed is called when all objects there are were listed: from then on it is certain which are missing.
	Listed func()
}

// New returns a watch that does not run.
func New[O metav1.Object, T any](view View[O, T], handlers Handlers) *Watch[T] {
	w := &Watch[T]{same: view.Same, handlers: handlers, items: map[types.NamespacedName]T{}}
	if w.same == nil {
		w.same = func(a, b T) bool { return equality.Semantic.DeepEqual(a, b) }
	}
	w.keep = func(obj any) (key types.NamespacedName, item T, wanted bool, err error) {
		object, ok := obj.(O)
		if !ok {
			return key, item, false, fmt.Errorf("a watch shows an unexpected %T", obj)
		}
		item, wanted, err = view.Keep(object)
		return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}, item, wanted, err
	}
	return w
}

// pageSize bounds one answer of a plain list, for members that cannot stream one.
const pageSize = 500

// Start watches until ctx is done or the watch is stopped. While the member cannot be reached it waits without requests; a member
// that does not serve the kind is requested every half minute.
func Start[O metav1.Object, T any](ctx context.Context, watches *Watches, conn *member.Conn, example runtime.Object, resource string, lw *cache.ListWatch, view View[O, T], handlers Handlers) *Watch[T] {
	w := New(view, handlers)
	ctx, w.stop = context.WithCancel(ctx)
	reflector := cache.NewReflectorWithOptions(lw, example, w, cache.ReflectorOptions{
		Name: conn.Name() + "/" + resource, TypeDescription: resource,
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 1, Cap: 30 * time.Second, Steps: 16},
	})
	reflector.WatchListPageSize = pageSize
	watches.run(func() { reflector.RunWithContext(ctx) })
	return w
}

// ListWatch is for a reflector what a client lists and watches.
func ListWatch[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error), watch func(context.Context, metav1.ListOptions) (watch.Interface, error)) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) },
		WatchFuncWithContext: watch,
	}
}

// Protobuf is the configuration of clients of a member for built-in kinds.
func Protobuf(conn *member.Conn) *rest.Config {
	config := conn.RESTConfig()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	return config
}

// Stop ends the watch; Watches.Wait waits for it.
func (w *Watch[T]) Stop() { w.stop() }

// Add implements cache.ReflectorStore.
func (w *Watch[T]) Add(obj any) error { return w.Update(obj) }

// Update implements cache.ReflectorStore.
func (w *Watch[T]) Update(obj any) error {
	key, item, wanted, err := w.keep(obj)
	if err != nil {
		return err
	}
	w.mu.Lock()
	old, existed := w.items[key]
	if wanted {
		w.items[key] = item
	} else {
		delete(w.items, key)
	}
	w.mu.Unlock()
	if existed != wanted || wanted && !w.same(old, item) {
		w.handlers.Changed(key)
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (w *Watch[T]) Delete(obj any) error {
	name, err := cache.ObjectToName(obj)
	if err != nil {
		return fmt.Errorf("a watch shows a deletion: %w", err)
	}
	key := name.AsNamespacedName()
	w.mu.Lock()
	_, existed := w.items[key]
	delete(w.items, key)
	w.mu.Unlock()
	if existed {
		w.handlers.Changed(key)
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (w *Watch[T]) Replace(list []any, _ string) error {
	items := make(map[types.NamespacedName]T, len(list))
	for _, obj := range list {
		key, item, wanted, err := w.keep(obj)
		if err != nil {
			return err
		}
		if wanted {
			items[key] = item
		}
	}
	w.mu.Lock()
	before := w.items
	w.items, w.synced = items, true
	w.mu.Unlock()
	for key, item := range items {
		if old, existed := before[key]; !existed || !w.same(old, item) {
			w.handlers.Changed(key)
		}
	}
	for key := range before {
		if _, exists := items[key]; !exists {
			w.handlers.Changed(key)
		}
	}
	w.handlers.Listed()
	return nil
}

// Resync implements cache.ReflectorStore.
func (w *Watch[T]) Resync() error { return nil }

// Get returns an item, and whether its absence, if it is absent, is certain.
func (w *Watch[T]) Get(key types.NamespacedName) (item T, exists, certain bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	item, exists = w.items[key]
	return item, exists, w.synced
}

// HasSynced returns whether all objects that there were at the start are known.
func (w *Watch[T]) HasSynced() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.synced
}

// Keys lists the items that match; nil matches all.
func (w *Watch[T]) Keys(matches func(T) bool) []types.NamespacedName {
	w.mu.RLock()
	defer w.mu.RUnlock()
	keys := make([]types.NamespacedName, 0, len(w.items))
	for key, item := range w.items {
		if matches == nil || matches(item) {
			keys = append(keys, key)
		}
	}
	return keys
}
