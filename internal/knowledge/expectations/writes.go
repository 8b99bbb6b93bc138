package expectations

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Object is what a controller writes: a pointer to a kind.
type Object interface {
	comparable
	metav1.Object
}

// Writes stores what one controller wrote until its informer shows it. The client's read-your-writes consistency makes reads
// wait for that; it does not mark the event of the write, and to reconcile an object again for each own write would double the
// cost of every change. Only one write of an object may be on its way at a time. The zero value is ready for use.
type Writes[T Object] struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry[T]
}

type entry[T Object] struct {
	// writing is true between Begin and Done.
	writing bool
	// written is the result of the last write that succeeded; nil before the first.
	written T
	// seen is the newest resource version that the informer showed during the write, and several is true if it showed others before.
	seen    string
	several bool
}

func (e *entry[T]) has() bool {
	var none T
	return e.written != none
}

// Begin is called before an object is written.
func (w *Writes[T]) Begin(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.entries == nil {
		w.entries = map[types.NamespacedName]*entry[T]{}
	}
	e := w.entries[key]
	if e == nil {
		e = &entry[T]{}
		w.entries[key] = e
	}
	e.writing, e.seen, e.several = true, "", false
}

// Done is called after the write with its result, which is nil if nothing was written. It returns true if the object was also
// changed by others or deleted since Begin: the object has to be reconciled again.
func (w *Writes[T]) Done(key types.NamespacedName, written T) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entries[key]
	if e == nil {
		return true
	}
	var none T
	e.writing = false
	if written != none {
		e.written = written
	}
	if e.seen == "" {
		if !e.has() {
			delete(w.entries, key)
		}
		return false
	}
	if written != none && older(e.seen, written.GetResourceVersion()) {
		return true // The event of this write is still to come.
	}
	delete(w.entries, key)
	return e.several || written == none || e.seen != written.GetResourceVersion()
}

// Observe is called with the object of every event that is no deletion. It returns true if the event shows nothing that the
// controller has not written itself. During a write it returns true for every event; Done returns what those mean.
func (w *Writes[T]) Observe(obj metav1.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, version := keyOf(obj), obj.GetResourceVersion()
	e := w.entries[key]
	switch {
	case e == nil:
		return false
	case e.has() && older(version, e.written.GetResourceVersion()):
		return true
	case e.writing:
		if !e.has() || version != e.written.GetResourceVersion() {
			e.several = e.seen != ""
			e.seen = version
		}
		return true
	default:
		delete(w.entries, key)
		return version == e.written.GetResourceVersion()
	}
}

// Forget is called with the object of every deletion.
func (w *Writes[T]) Forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.entries, key)
}

// Latest returns the newer one of the cached object, which may be nil, and the written one.
func (w *Writes[T]) Latest(key types.NamespacedName, cached T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	var none T
	e := w.entries[key]
	if e == nil || !e.has() || cached != none && !older(cached.GetResourceVersion(), e.written.GetResourceVersion()) {
		return cached
	}
	return e.written
}

// Pending lists the written objects that match and that the cache may not show yet.
func (w *Writes[T]) Pending(matches func(T) bool) []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	var pending []T
	for _, e := range w.entries {
		if e.has() && matches(e.written) {
			pending = append(pending, e.written)
		}
	}
	return pending
}

func keyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// older compares resource versions. Of two that cannot be compared, neither is older.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
