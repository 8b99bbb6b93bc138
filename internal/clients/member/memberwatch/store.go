package memberwatch

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Store keeps what is needed of the objects of one kind. client-go's stores keep whole objects, and do not compare them.
type Store[T any] struct {
	// Keep returns what is needed of an object, and false if the object is not needed. Required.
	Keep func(obj any) (T, bool, error)
	// Same returns whether a change does not matter. Default: semantic equality.
	Same func(a, b T) bool
	// Changed is called, without locks and in order, for every change that matters: before or after is nil if there was or is
	// nothing. It must not block. Optional.
	Changed func(key types.NamespacedName, before, after *T)
	// Listed is called after every complete list. Optional.
	Listed func()

	mu     sync.RWMutex
	items  map[types.NamespacedName]T
	synced bool
}

var _ cache.ReflectorStore = (*Store[int])(nil)

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
	if s.items == nil {
		s.items = map[types.NamespacedName]T{}
	}
	s.items[key] = item
	s.mu.Unlock()
	s.compare(key, before, item, existed)
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *Store[T]) Delete(obj any) error {
	key, err := keyOf(obj)
	if err != nil {
		return err
	}
	s.remove(key)
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *Store[T]) Replace(list []any, _ string) error {
	items := make(map[types.NamespacedName]T, len(list))
	for _, obj := range list {
		key, item, needed, err := s.read(obj)
		if err != nil {
			return err
		}
		if needed {
			items[key] = item
		}
	}
	s.mu.Lock()
	before := s.items
	s.items, s.synced = items, true
	s.mu.Unlock()
	for key, item := range items {
		old, existed := before[key]
		s.compare(key, old, item, existed)
	}
	for key, old := range before {
		if _, exists := items[key]; !exists && s.Changed != nil {
			s.Changed(key, &old, nil)
		}
	}
	if s.Listed != nil {
		s.Listed()
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *Store[T]) Resync() error { return nil }

func (s *Store[T]) read(obj any) (key types.NamespacedName, item T, needed bool, err error) {
	if key, err = keyOf(obj); err == nil {
		item, needed, err = s.Keep(obj)
	}
	return key, item, needed, err
}

func keyOf(obj any) (types.NamespacedName, error) {
	object, err := meta.Accessor(obj)
	if err != nil {
		return types.NamespacedName{}, fmt.Errorf("storing a %T: %w", obj, err)
	}
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}, nil
}

func (s *Store[T]) remove(key types.NamespacedName) {
	s.mu.Lock()
	before, existed := s.items[key]
	delete(s.items, key)
	s.mu.Unlock()
	if existed && s.Changed != nil {
		s.Changed(key, &before, nil)
	}
}

func (s *Store[T]) compare(key types.NamespacedName, before, after T, existed bool) {
	switch {
	case s.Changed == nil:
	case !existed:
		s.Changed(key, nil, &after)
	case s.Same != nil && !s.Same(before, after), s.Same == nil && !equality.Semantic.DeepEqual(before, after):
		s.Changed(key, &before, &after)
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
