package hubstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Discover reads which groups and resources the control plane serves, as discovery.ServerGroupsAndResources does: with a
// *discovery.ErrGroupDiscoveryFailed the rest of the answer counts. It is a function because the interface for which that is
// called has a dozen methods more, which a test would have to implement.
type Discover func(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error)

// Config is what a Store is made of. All fields but Exclude, InUse,
// Separate, Short and Loop are required.
type Config struct {
	Metadata metadata.Interface
	Dynamic  dynamic.Interface
	Discover Discover
	Clock    clock.Clock
	// Exclude leaves out objects besides those of [Excluded]. It is a function because flags of the control plane decide it.
	Exclude func(Ref) bool
	// InUse returns at once whether there may be objects of a resource. One that has none is not watched until it has, after a call
	// of Reconsider. Nil: all may have objects. It is a function because the API server has storage, and clients do not import it.
	InUse func(context.Context, schema.GroupResource) bool
	// Separate are versions whose objects are not those of the preferred version.
	Separate []schema.GroupVersion
	// Short returns whether the process is short of memory: no contents are kept then. Nil: it never is. It is a function because the
	// process measures it.
	Short func() bool
	// Loop is the one that reads kinds and handles events. Nil: one that nothing measures.
	Loop *controlloop.Loop
}

// Store is the set of all templates. Meta and List read from the cache, Read from what was read or written last, and
// all other methods from the API server.
type Store struct {
	metadata metadata.Interface
	dynamic  dynamic.Interface
	discover Discover
	clock    clock.Clock
	exclude  func(Ref) bool
	inUse    func(context.Context, schema.GroupResource) bool
	separate []schema.GroupVersion
	loop     *controlloop.Loop
	handlers *controlloop.Handlers

	definitions *definitions
	ready       chan struct{}
	used        chan struct{}
	running     sync.WaitGroup

	// deleted has the UIDs of the last objects whose deletion a watch reported. It is kept since every deletion of a binding and of its
	// Works depends on whether the template is there, and the answer about one that is not would be a request each time.
	deleted *lru.Cache
	// contents serves Read.
	contents contents

	mu          sync.RWMutex
	catalog     *catalog
	watches     map[schema.GroupVersionKind]*watch
	subscribers []func(Ref)
	followers   []Follower
}

// New returns a store that is empty until Start runs.
func New(config Config) *Store {
	loop := config.Loop
	if loop == nil {
		loop = (*controlloop.Set)(nil).Loop("")
	}
	s := &Store{
		metadata:    config.Metadata,
		dynamic:     config.Dynamic,
		discover:    config.Discover,
		clock:       config.Clock,
		exclude:     config.Exclude,
		inUse:       config.InUse,
		separate:    config.Separate,
		loop:        loop,
		handlers:    loop.Handlers(),
		definitions: newDefinitions(),
		ready:       make(chan struct{}),
		used:        make(chan struct{}, 1),
		catalog:     newCatalog(nil, nil, nil, nil, nil),
		deleted:     lru.New(keptDeletions),
		contents:    newContents(config.Short),
		watches:     map[schema.GroupVersionKind]*watch{},
	}
	loop.WaitsFor("templates", s.synced)
	return s
}

// synced returns whether WaitForSync returns at once.
func (s *Store) synced() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// keptDeletions bounds the memory for deletions: 1 MB. An object that was deleted before these is read.
const keptDeletions = 8192

// Deleted returns whether a watch reported that the object with a UID was deleted. As no object gets that UID again, true is certain;
// false is not: the object may be gone. It makes no request.
func (s *Store) Deleted(uid types.UID) bool {
	_, ok := s.deleted.Get(uid)
	return ok
}

// Subscribe has notify called for every template: at once for those that exist, then for each that is created, changed or deleted.
// Changes of nothing but status are left out, where a kind has a generation. Notify must return quickly, and may be called from several
// goroutines and more than once for one change.
func (s *Store) Subscribe(notify func(Ref)) {
	s.mu.Lock()
	s.subscribers = append(s.subscribers, notify)
	watches := make([]*watch, 0, len(s.watches))
	for _, w := range s.watches {
		watches = append(watches, w)
	}
	s.mu.Unlock()
	for _, w := range watches {
		for _, ref := range s.refsOf(w) {
			notify(ref)
		}
	}
}

// Follower is called for a change or a deletion of a template. Before is its metadata until then; after is nil if it was deleted, and then
// before has the resource version of the deletion.
type Follower func(ref Ref, before, after *metav1.PartialObjectMetadata)

// Follow has a follower called for each change of which Subscribe notifies, with what it was before. Deletions that no watch
// reported are left out. The follower must return quickly, may be called from several goroutines and must not change what it gets.
func (s *Store) Follow(follower Follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers = append(s.followers, follower)
}

// Touch notifies the subscribers of every template of some kinds, as if it had changed.
func (s *Store) Touch(kinds func(schema.GroupVersionKind) bool) {
	s.mu.RLock()
	var watches []*watch
	for gvk, w := range s.watches {
		if kinds(gvk) {
			watches = append(watches, w)
		}
	}
	s.mu.RUnlock()
	for _, w := range watches {
		for _, ref := range s.refsOf(w) {
			s.notify(ref)
		}
	}
}

// Reconsider is called when a resource may have objects that had none.
func (s *Store) Reconsider() {
	select {
	case s.used <- struct{}{}:
	default:
	}
}

// WaitForSync returns when every kind found at the start has been listed, or
// has had 15 seconds to be; definitions have been listed in any case.
func (s *Store) WaitForSync(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for templates to be listed: %w", ctx.Err())
	}
}

// Canonical is the version that the store uses for objects of a kind,
// which a selector or a binding may name by another version. It is false for
// kinds that are no templates.
func (s *Store) Canonical(gvk schema.GroupVersionKind) (schema.GroupVersionKind, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.catalog.canonical(gvk)
}

// OtherVersions are the versions, besides the one that the store uses for
// the objects of a kind, in which the hub serves the same objects. The list must
// not be changed.
func (s *Store) OtherVersions(gvk schema.GroupVersionKind) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.catalog.others[gvk]
}

// Mapping is the resource of a served kind and its scope. It is false for kinds
// that are no templates.
func (s *Store) Mapping(gvk schema.GroupVersionKind) (gvr schema.GroupVersionResource, namespaced, ok bool) {
	k, ok := s.kindOf(gvk)
	return k.gvr, k.namespaced, ok
}

// HasStatus returns whether objects of the kind have a status subresource.
func (s *Store) HasStatus(gvk schema.GroupVersionKind) bool {
	k, ok := s.kindOf(gvk)
	return ok && k.status
}

// HasScale returns whether objects of the kind have a subresource scale.
func (s *Store) HasScale(gvk schema.GroupVersionKind) bool {
	k, ok := s.kindOf(gvk)
	return ok && k.scale
}

// Meta returns the metadata of a template as it was last seen, or written through this
// store, in any served version. It must not be changed, and lacks managed
// fields; of the annotation that "kubectl apply" leaves only a digest is kept.
func (s *Store) Meta(ref Ref) (*metav1.PartialObjectMetadata, bool) {
	w := s.watchOf(ref.GroupVersionKind)
	if w == nil {
		return nil, false
	}
	ref.GroupVersionKind = w.gvk
	seen := w.seen(ref)
	if seen == nil || s.Stays(ref, seen) != "" {
		return nil, false
	}
	if latest := w.writes.Latest(ref.objectKey(), seen); latest.UID == seen.UID {
		return latest, true
	}
	return seen, true
}

// List is the metadata of all templates of a kind that have the labels, in one
// namespace or, when it is empty, everywhere.
func (s *Store) List(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) []*metav1.PartialObjectMetadata {
	w := s.watchOf(gvk)
	if w == nil {
		return nil
	}
	var found []*metav1.PartialObjectMetadata
	collect := func(item any) {
		if meta := item.(*metav1.PartialObjectMetadata); s.Stays(refTo(w.gvk, meta), meta) == "" {
			found = append(found, meta)
		}
	}
	if err := cache.ListAllByNamespace(w.informer.GetIndexer(), namespace, selector, collect); err != nil {
		return nil // of items without metadata alone, and these are metadata
	}
	return found
}

// Get reads a template from the API server. With a large one it returns when it is the turn of the template's namespace. The error is a NotFound when the
// object or its kind does not exist; a kind whose group does not answer gives
// another error, so that absence is always certain.
func (s *Store) Get(ctx context.Context, ref Ref) (*unstructured.Unstructured, error) {
	client, err := s.client(ref)
	if err != nil {
		return nil, err
	}
	obj, err := client.Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	awaitTurn(ctx, obj)
	return obj, nil
}

// GetAt reads a template as it was when the storage was at a resource version, which may be that of any object. The error is a NotFound if
// there was none, and Expired if the storage does not have that version any more, which is so after five minutes.
func (s *Store) GetAt(ctx context.Context, ref Ref, resourceVersion string) (*unstructured.Unstructured, error) {
	client, err := s.client(ref)
	if err != nil {
		return nil, err
	}
	list, err := client.List(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String(),
		ResourceVersion: resourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s at %s: %w", ref, resourceVersion, err)
	}
	if len(list.Items) != 1 {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: ref.GroupVersionKind.Group, Resource: ref.GroupVersionKind.Kind}, ref.Name)
	}
	awaitTurn(ctx, &list.Items[0])
	return &list.Items[0], nil
}

// awaitTurn returns when it is the turn of an object's namespace, if the object is large.
func awaitTurn(ctx context.Context, obj *unstructured.Unstructured) {
	controlloop.Large(ctx, obj.GetNamespace(), textSize(obj.Object, controlloop.LargeBytes))
}

func (s *Store) client(ref Ref) (dynamic.ResourceInterface, error) {
	k, ok := s.kindOf(ref.GroupVersionKind)
	if !ok {
		return nil, s.unknownKind(ref)
	}
	resource := s.dynamic.Resource(k.gvr)
	if k.namespaced {
		return resource.Namespace(ref.Namespace), nil
	}
	return resource, nil
}

func (s *Store) unknownKind(ref Ref) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	gvk := ref.GroupVersionKind
	if !s.synced() {
		return fmt.Errorf("reading %s: kinds are not known yet", ref)
	}
	if s.catalog.unread[gvk.Group] {
		return fmt.Errorf("reading %s: group %q does not answer", ref, gvk.Group)
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, ref.Name)
}

func (s *Store) kindOf(gvk schema.GroupVersionKind) (kind, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k, ok := s.catalog.served[gvk]
	return k, ok
}

func (s *Store) watchOf(gvk schema.GroupVersionKind) *watch {
	s.mu.RLock()
	defer s.mu.RUnlock()
	canonical, ok := s.catalog.canonical(gvk)
	if !ok {
		return nil
	}
	return s.watches[canonical]
}

// Stays returns why an object whose kind may be a template is none; "" if it is one.
func (s *Store) Stays(ref Ref, object metav1.Object) string {
	return StaysWith(s.exclude, ref, object)
}

// never returns whether an object is no template whatever its metadata.
func (s *Store) never(ref Ref) bool {
	return Excluded(ref) && !MayLeave(ref) || s.exclude != nil && s.exclude(ref)
}

func (s *Store) notify(ref Ref) {
	s.mu.RLock()
	subscribers := s.subscribers
	s.mu.RUnlock()
	for _, notify := range subscribers {
		notify(ref)
	}
}

func (s *Store) follow(w *watch, before, after *metav1.PartialObjectMetadata) {
	ref := refTo(w.gvk, before)
	if s.Stays(ref, before) != "" {
		return
	}
	s.mu.RLock()
	followers := s.followers
	s.mu.RUnlock()
	for _, follower := range followers {
		follower(ref, before, after)
	}
}

// readyAfter bounds the wait for the first listing, so that a group that does not answer does not delay all others.
const readyAfter = 15 * time.Second
