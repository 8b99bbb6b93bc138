package endpointslices

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// Watch keeps what matters of a member's objects of one kind, in one namespace or all. It is the store of a reflector.
type Watch[T any] struct {
	View[T]
	Handlers
	Stop context.CancelFunc

	mu     sync.RWMutex
	Items  map[types.NamespacedName]T
	synced bool
}

var _ cache.ReflectorStore = (*Watch[int])(nil)

// View is what matters of the objects of a kind.
type View[T any] struct {
	// keep is what matters of an object; false for one that does not matter.
	keep func(obj any) (T, bool, error)
	// same says that a change of an object is no news.
	same func(a, b T) bool
}

// ViewOf is a view that compares by meaning.
func ViewOf[T any](keep func(obj any) (T, bool, error)) View[T] {
	return View[T]{keep: keep, same: func(a, b T) bool { return equality.Semantic.DeepEqual(a, b) }}
}

// Handlers are called for what is followed. The functions must not block.
type Handlers struct {
	Changed func(types.NamespacedName)
	Listed  func()
}

// pageSize bounds one answer of a plain list, for members that cannot stream one.
const pageSize = 500

// Start watches until ctx ends or stop is called. It waits for a member that is away without asking it again and again;
// one that does not serve the kind is asked every half minute.
func Start[T any](ctx context.Context, conn *member.Conn, example runtime.Object, what string, lw *cache.ListWatch, of View[T], tell Handlers) *Watch[T] {
	ctx, stop := context.WithCancel(ctx)
	f := &Watch[T]{View: of, Handlers: tell, Stop: stop, Items: map[types.NamespacedName]T{}}
	reflector := cache.NewReflectorWithOptions(lw, example, f, cache.ReflectorOptions{
		Name: conn.Name() + "/" + what, TypeDescription: what,
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 1, Cap: 30 * time.Second, Steps: 16},
	})
	reflector.WatchListPageSize = pageSize
	go reflector.RunWithContext(ctx)
	return f
}

// Add implements cache.ReflectorStore.
func (f *Watch[T]) Add(obj any) error { return f.put(obj) }

// Update implements cache.ReflectorStore.
func (f *Watch[T]) Update(obj any) error { return f.put(obj) }

func (f *Watch[T]) put(obj any) error {
	key, item, wanted, err := f.read(obj)
	if err != nil {
		return err
	}
	f.mu.Lock()
	old, existed := f.Items[key]
	if wanted {
		f.Items[key] = item
	} else {
		delete(f.Items, key)
	}
	f.mu.Unlock()
	if existed != wanted || wanted && !f.same(old, item) {
		f.Changed(key)
	}
	return nil
}

func (f *Watch[T]) read(obj any) (key types.NamespacedName, item T, wanted bool, err error) {
	object, err := meta.Accessor(obj)
	if err != nil {
		return key, item, false, fmt.Errorf("following a %T: %w", obj, err)
	}
	item, wanted, err = f.keep(obj)
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}, item, wanted, err
}

// Delete implements cache.ReflectorStore.
func (f *Watch[T]) Delete(obj any) error {
	object, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("deleting a %T: %w", obj, err)
	}
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	f.mu.Lock()
	_, existed := f.Items[key]
	delete(f.Items, key)
	f.mu.Unlock()
	if existed {
		f.Changed(key)
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (f *Watch[T]) Replace(list []any, _ string) error {
	items := make(map[types.NamespacedName]T, len(list))
	for _, obj := range list {
		key, item, wanted, err := f.read(obj)
		if err != nil {
			return err
		}
		if wanted {
			items[key] = item
		}
	}
	f.mu.Lock()
	before := f.Items
	f.Items, f.synced = items, true
	f.mu.Unlock()
	for key, item := range items {
		if old, existed := before[key]; !existed || !f.same(old, item) {
			f.Changed(key)
		}
	}
	for key := range before {
		if _, exists := items[key]; !exists {
			f.Changed(key)
		}
	}
	f.Listed()
	return nil
}

// Resync implements cache.ReflectorStore.
func (f *Watch[T]) Resync() error { return nil }

// Get returns an item, and whether its absence, if it is absent, is certain.
func (f *Watch[T]) Get(key types.NamespacedName) (item T, exists, certain bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	item, exists = f.Items[key]
	return item, exists, f.synced
}

func (f *Watch[T]) HasSynced() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.synced
}

// Keys lists the items that are wanted.
func (f *Watch[T]) Keys(wanted func(T) bool) []types.NamespacedName {
	f.mu.RLock()
	defer f.mu.RUnlock()
	keys := make([]types.NamespacedName, 0, len(f.Items))
	for key, item := range f.Items {
		if wanted(item) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Everything wants every item.
func Everything[T any](T) bool { return true }
