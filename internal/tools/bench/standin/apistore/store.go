package apistore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// historyLength is how many events a stand-in keeps for watches that continue.
	historyLength = 512
	// watcherBuffer is how many events may wait for a watch before it is ended.
	watcherBuffer = 256
)

// Object is one object. It is kept as JSON, which takes a fraction of the memory of a decoded object.
type Object struct {
	Key    types.NamespacedName
	Raw    []byte
	Labels map[string]string
	// Arrived is when it was created.
	Arrived time.Time
	version uint64
}

// Decode returns a copy of the object.
func (s *Object) Decode() (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(s.Raw, &u.Object); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", s.Key, err)
	}
	return u, nil
}

// Event is one change. Before is nil for a new object.
type Event struct {
	Kind           watch.EventType
	Object, Before *Object
	Version        uint64
	// InitialEvents is true for a bookmark that ends the initial events.
	InitialEvents bool

	resource schema.GroupVersionResource
}

// Store has the objects of one stand-in, and merges changes into them.
type Store struct {
	// Control does what a controller of the cluster does about a written object: it changes the object and returns true, or returns
	// false. Optional.
	Control func(*unstructured.Unstructured) bool

	managers *managers
	catalogs *catalogs

	mu       sync.Mutex
	catalog  *Catalog
	version  uint64
	objects  map[schema.GroupVersionResource]map[types.NamespacedName]*Object
	history  []Event // the oldest first
	dropped  uint64  // the version of the newest event that is not in history any more
	watchers map[*Watcher]struct{}
}

// Watcher is a watch of one resource.
type Watcher struct {
	// Events is closed when the watch has to end.
	Events chan Event

	resource  schema.GroupVersionResource
	bookmarks bool
	slot      int // when in a period its bookmarks are due
}

// Shared is what all stores of a process have in common.
type Shared struct {
	managers *managers
	catalogs *catalogs
}

// NewShared reads the built-in resources and their schemas.
func NewShared() (Shared, error) {
	catalogs, err := newCatalogs()
	return Shared{newManagers(), catalogs}, err
}

// New returns a store without objects.
func New(shared Shared) (*Store, error) {
	s := &Store{
		managers: shared.managers, catalogs: shared.catalogs, version: 1,
		objects: map[schema.GroupVersionResource]map[types.NamespacedName]*Object{}, watchers: map[*Watcher]struct{}{},
	}
	return s, s.defined()
}

// Catalog is what is served now.
func (s *Store) Catalog() *Catalog {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catalog
}

// defined makes the store serve what its definitions define. The lock is held, except in New.
func (s *Store) defined() error {
	var found []*unstructured.Unstructured
	for _, definition := range s.list(definitions, "") {
		u, err := definition.Decode()
		if err != nil {
			return err
		}
		found = append(found, u)
	}
	var err error
	s.catalog, err = s.catalogs.of(found)
	return err
}

// Get returns an object, or nil.
func (s *Store) Get(resource schema.GroupVersionResource, key types.NamespacedName) *Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(resource, key)
}

// List returns the objects of a resource in one namespace, or in all, sorted by name, and the version of the list.
func (s *Store) List(resource schema.GroupVersionResource, namespace string) (found []*Object, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list(resource, namespace), s.version
}

// Count returns how many objects and watches there are.
func (s *Store) Count() (objects, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, some := range s.objects {
		objects += len(some)
	}
	return objects, len(s.watchers)
}

// Add stores an object as it is.
func (s *Store) Add(resource schema.GroupVersionResource, object *unstructured.Unstructured) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(resource, object)
}

func (s *Store) get(resource schema.GroupVersionResource, key types.NamespacedName) *Object {
	return s.objects[resource][key]
}

// list returns the objects of a resource in one namespace, or in all, sorted by name.
func (s *Store) list(resource schema.GroupVersionResource, namespace string) []*Object {
	found := make([]*Object, 0, len(s.objects[resource]))
	for key, object := range s.objects[resource] {
		if namespace == "" || key.Namespace == namespace {
			found = append(found, object)
		}
	}
	slices.SortFunc(found, func(a, b *Object) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	return found
}

// put stores an object under the next version, which it also writes into it.
func (s *Store) put(resource schema.GroupVersionResource, object *unstructured.Unstructured) error {
	now, err := s.encode(object)
	if err != nil {
		return err
	}
	before, kind := s.get(resource, now.Key), watch.Added
	if before != nil {
		kind, now.Arrived = watch.Modified, before.Arrived
	}
	if s.objects[resource] == nil {
		s.objects[resource] = map[types.NamespacedName]*Object{}
	}
	s.objects[resource][now.Key] = now
	s.publish(Event{Kind: kind, resource: resource, Object: now, Before: before, Version: now.version})
	return nil
}

// remove deletes an object. Its last state has a version of its own.
func (s *Store) remove(resource schema.GroupVersionResource, object *unstructured.Unstructured) error {
	last, err := s.encode(object)
	if err != nil {
		return err
	}
	delete(s.objects[resource], last.Key)
	s.publish(Event{Kind: watch.Deleted, resource: resource, Object: last, Before: last, Version: last.version})
	return nil
}

func (s *Store) encode(object *unstructured.Unstructured) (*Object, error) {
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	object.SetResourceVersion(strconv.FormatUint(s.version+1, 10))
	raw, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", key, err)
	}
	s.version++
	return &Object{Key: key, Raw: raw, Labels: object.GetLabels(), version: s.version, Arrived: time.Now()}, nil
}

func (s *Store) publish(e Event) {
	if len(s.history) == historyLength {
		s.dropped = s.history[0].Version
		s.history = append(s.history[:0], s.history[1:]...)
	}
	s.history = append(s.history, e)
	for w := range s.watchers {
		if w.resource == e.resource {
			s.send(w, e)
		}
	}
}

// send gives an event to a watch; one that does not keep up ends.
func (s *Store) send(w *Watcher, e Event) {
	select {
	case w.Events <- e:
	default:
		s.stop(w)
	}
}

func (s *Store) stop(w *Watcher) {
	if _, running := s.watchers[w]; running {
		delete(s.watchers, w)
		close(w.Events)
	}
}

// Watch begins a watch: with all objects and a bookmark after them, with all objects if the version is empty or 0, or with the events
// after a version.
func (s *Store) Watch(resource schema.GroupVersionResource, at string, initial, bookmarks bool) (*Watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var backlog []Event
	if initial || at == "" || at == "0" {
		for _, object := range s.list(resource, "") {
			backlog = append(backlog, Event{Kind: watch.Added, resource: resource, Object: object, Version: object.version})
		}
		if initial {
			backlog = append(backlog, Event{Kind: watch.Bookmark, resource: resource, Version: s.version, InitialEvents: true})
		}
	} else {
		after, err := strconv.ParseUint(at, 10, 64)
		if err != nil {
			return nil, apierrors.NewBadRequest("the resource version is not a number")
		}
		if after < s.dropped {
			return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", after))
		}
		for _, e := range s.history {
			if e.Version > after && e.resource == resource {
				backlog = append(backlog, e)
			}
		}
	}
	w := &Watcher{resource: resource, bookmarks: bookmarks, slot: rand.Int(), Events: make(chan Event, len(backlog)+watcherBuffer)} //nolint:gosec // Not a secret.
	for _, e := range backlog {
		w.Events <- e
	}
	s.watchers[w] = struct{}{}
	return w, nil
}

// Stop ends a watch.
func (s *Store) Stop(w *Watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop(w)
}

// SendBookmarks sends bookmarks to those watches that are due, each once in a period.
func (s *Store) SendBookmarks(tick, period int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		if w.bookmarks && w.slot%period == tick%period {
			s.send(w, Event{Kind: watch.Bookmark, resource: w.resource, Version: s.version})
		}
	}
}

// Condition is a condition as the controllers of a cluster write it.
func Condition(kind string) map[string]any {
	return map[string]any{"type": kind, "status": string(metav1.ConditionTrue), "reason": "StandIn", "message": "", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
}
