package memberwatch

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// Store keeps what is needed of the objects of one kind. client-go's stores keep whole objects, and do not compare them.
type Store[T any] struct {
	// Keep returns what is needed of an object, and false if the object is not needed; see Of. Required.
	Keep func(obj any) (T, bool, error)
	// Same returns whether a change does not matter; the item stays as it is then. Default: semantic equality.
	Same func(a, b T) bool
	// Size is about how many bytes an item takes. Default: bounds.SizeOf, for items that share nothing large.
	Size func(item T) int64
	// Changed is called for every item that changed: before or after is nil if there was or is none. Optional. Like News it is
	// called without locks, and must not block.
	Changed func(key types.NamespacedName, before, after *T)
	// News is called once after one or more items changed, and, with listed set, after every complete list. Optional.
	News func(listed bool)

	Holding
	mu     sync.RWMutex
	items  map[types.NamespacedName]T
	synced bool
}

var (
	_ cache.ReflectorStore = (*Store[int])(nil)
	_ reducing             = (*Store[int])(nil)
)

// reduced is what Store.Reduce returns.
type reduced[T any] struct {
	key  types.NamespacedName
	item T
}

// Reduce returns what is kept of an object of a list.
func (s *Store[T]) Reduce(object any) (any, bounds.Amount, error) {
	key, item, needed, err := s.read(object)
	if err != nil || !needed {
		return nil, bounds.Amount{}, err
	}
	return reduced[T]{key, item}, s.takes(key, item), nil
}

// takes is what an item takes with its key.
func (s *Store[T]) takes(key types.NamespacedName, item T) bounds.Amount {
	size := func(item T) int64 { return bounds.SizeOf(item) }
	if s.Size != nil {
		size = s.Size
	}
	return bounds.Amount{Objects: 1, Bytes: bounds.SizeOf(key) + size(item)}
}

// Of is Store.Keep for objects of a type.
func Of[O, T any](keep func(O) (T, bool, error)) func(obj any) (T, bool, error) {
	return func(obj any) (item T, needed bool, err error) {
		object, ok := obj.(O)
		if !ok {
			return item, false, fmt.Errorf("a %T is no %T", obj, object)
		}
		return keep(object)
	}
}

// NewStore returns a store that calls changed for every item that came, changed or went, and listed after every complete list: from then on
// it is certain which are missing.
func NewStore[O, T any](keep func(O) (T, bool, error), changed func(types.NamespacedName), listed func()) *Store[T] {
	return &Store[T]{
		Keep:    Of(keep),
		Changed: func(key types.NamespacedName, _, _ *T) { changed(key) },
		News: func(complete bool) {
			if complete {
				listed()
			}
		},
	}
}

// Add implements cache.ReflectorStore.
func (s *Store[T]) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *Store[T]) Update(obj any) error {
	key, item, needed, err := s.read(obj)
	if err != nil {
		return err
	}
	if !needed {
		s.remove(key)
		return nil
	}
	s.mu.Lock()
	before, existed := s.items[key]
	if existed && s.same(before, item) {
		s.mu.Unlock()
		return nil
	}
	if s.items == nil {
		s.items = map[types.NamespacedName]T{}
	}
	s.items[key] = item
	s.mu.Unlock()
	if existed {
		s.Change(bounds.Amount{}.Minus(s.takes(key, before)))
	}
	s.Change(s.takes(key, item))
	s.changed(key, before, existed, &item)
	s.news(false)
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *Store[T]) Delete(obj any) error {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	key, err := keyOfAny(obj)
	if err != nil {
		return err
	}
	s.remove(key)
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *Store[T]) Replace(list []any, _ string) error {
	s.mu.RLock()
	before := s.items // only a reflector changes it, and this is its goroutine
	s.mu.RUnlock()
	items := make(map[types.NamespacedName]T, len(list))
	changes := map[types.NamespacedName]T{}
	for _, obj := range list {
		key, item, needed, err := s.read(obj)
		if err != nil {
			return err
		}
		old, existed := before[key]
		switch {
		case !needed:
		case existed && s.same(old, item):
			items[key] = old
		default:
			items[key], changes[key] = item, item
		}
	}
	sum := bounds.Amount{}
	for key, item := range items {
		sum = sum.Plus(s.takes(key, item))
	}
	s.mu.Lock()
	s.items, s.synced = items, true
	s.mu.Unlock()
	s.Change(sum.Minus(s.Held()))
	for key, item := range changes {
		old, existed := before[key]
		s.changed(key, old, existed, &item)
	}
	for key, old := range before {
		if _, exists := items[key]; !exists {
			s.changed(key, old, true, nil)
		}
	}
	s.news(true)
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *Store[T]) Resync() error { return nil }

func (s *Store[T]) read(obj any) (key types.NamespacedName, item T, needed bool, err error) {
	if r, ok := obj.(reduced[T]); ok {
		return r.key, r.item, true, nil
	}
	if key, err = keyOfAny(obj); err == nil {
		item, needed, err = s.Keep(obj)
	}
	return key, item, needed, err
}

func keyOfAny(obj any) (types.NamespacedName, error) {
	object, err := meta.Accessor(obj)
	if err != nil {
		return types.NamespacedName{}, fmt.Errorf("storing a %T: %w", obj, err)
	}
	return keyOf(object), nil
}

func (s *Store[T]) remove(key types.NamespacedName) {
	s.mu.Lock()
	before, existed := s.items[key]
	delete(s.items, key)
	s.mu.Unlock()
	if existed {
		s.Change(bounds.Amount{}.Minus(s.takes(key, before)))
		s.changed(key, before, true, nil)
		s.news(false)
	}
}

func (s *Store[T]) same(a, b T) bool {
	if s.Same != nil {
		return s.Same(a, b)
	}
	return equality.Semantic.DeepEqual(a, b)
}

func (s *Store[T]) changed(key types.NamespacedName, before T, existed bool, after *T) {
	switch {
	case s.Changed == nil:
	case existed:
		s.Changed(key, &before, after)
	default:
		s.Changed(key, nil, after)
	}
}

func (s *Store[T]) news(listed bool) {
	if s.News != nil {
		s.News(listed)
	}
}

// Get returns an item, and whether the store is complete, so that what is not there does not exist.
func (s *Store[T]) Get(key types.NamespacedName) (item T, exists, synced bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	item, exists = s.items[key]
	return item, exists, s.synced
}

// Synced returns whether the store had a complete list.
func (s *Store[T]) Synced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced
}

// Visit calls f with every item. F must not use the store.
func (s *Store[T]) Visit(f func(key types.NamespacedName, item T)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, item := range s.items {
		f(key, item)
	}
}

// Keys lists the items that match; nil matches all.
func (s *Store[T]) Keys(matches func(T) bool) []types.NamespacedName {
	var keys []types.NamespacedName
	s.Visit(func(key types.NamespacedName, item T) {
		if matches == nil || matches(item) {
			keys = append(keys, key)
		}
	})
	return keys
}
