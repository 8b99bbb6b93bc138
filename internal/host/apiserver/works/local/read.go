package local

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is a kind that is read and written.
type Kind struct {
	*registry.Store
	GVK schema.GroupVersionKind
	// Subresources are those that can be written without a request.
	Subresources map[string]rest.Updater
	// WithStatus stores an object and its status in one write. Nil: these are always two.
	WithStatus *registry.Store
}

func (k Kind) resource() schema.GroupResource { return k.DefaultQualifiedResource }

// Storage is the storage of some kinds. The nil Storage has none.
type Storage struct {
	kinds map[reflect.Type]Kind
	rules rules
}

// New makes a Storage with the rules of the server of the kinds. The scheme has the kinds.
func New(config genericapiserver.Config, scheme *runtime.Scheme, kinds ...Kind) *Storage {
	s := &Storage{kinds: map[reflect.Type]Kind{}, rules: newRules(config, scheme)}
	for _, kind := range kinds {
		s.kinds[reflect.TypeOf(kind.NewFunc())] = kind
	}
	return s
}

func (s *Storage) kind(obj runtime.Object) (Kind, bool) {
	if s == nil {
		return Kind{}, false
	}
	kind, ok := s.kinds[reflect.TypeOf(obj)]
	return kind, ok
}

// New returns an empty object of a resource, nil if that is not one of the kinds.
func (s *Storage) New(resource schema.GroupResource) runtime.Object {
	if s == nil {
		return nil
	}
	for _, kind := range s.kinds {
		if kind.resource() == resource {
			return kind.NewFunc()
		}
	}
	return nil
}

// ListerWatcher returns how an informer reads all objects of the type of obj, nil if that is none of the kinds. What it reads shares
// its memory with the watch cache, so that objects of the informer must not be changed, not even by a transform; only the fields of
// the object itself, such as the list of managed fields, may be set. Selectors of the informer are not applied.
//
// Over HTTP, each change of an object is encoded by the API server and decoded by the informer, and the process keeps it twice.
func (s *Storage) ListerWatcher(obj runtime.Object) toolscache.ListerWatcher {
	kind, ok := s.kind(obj)
	if !ok {
		return nil
	}
	return listOnly{&toolscache.ListWatch{ListWithContextFunc: kind.list, WatchFuncWithContext: kind.watch}}
}

// listOnly has a reflector begin with a list: the initial events of a watch are copies.
type listOnly struct{ *toolscache.ListWatch }

// IsWatchListSemanticsUnSupported is looked up by client-go.
func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

func (k Kind) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	read := &metainternalversion.ListOptions{ResourceVersion: options.ResourceVersion, ResourceVersionMatch: options.ResourceVersionMatch}
	list, err := k.List(genericapirequest.WithNamespace(ctx, metav1.NamespaceAll), read)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", k.resource(), err)
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		item.GetObjectKind().SetGroupVersionKind(k.GVK)
		return nil
	})
	return list, err
}

func (k Kind) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	read := &metainternalversion.ListOptions{ResourceVersion: options.ResourceVersion, AllowWatchBookmarks: options.AllowWatchBookmarks}
	source, err := k.Watch(genericapirequest.WithNamespace(ctx, metav1.NamespaceAll), read)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", k.resource(), err)
	}
	return watch.Filter(source, func(event watch.Event) (watch.Event, bool) {
		event.Object = k.shared(ctx, event)
		return event, true
	}), nil
}

// shared returns the object of an event with its kind, in the memory of the watch cache if that has the same version of it.
func (k Kind) shared(ctx context.Context, event watch.Event) runtime.Object {
	object := event.Object
	if several, ok := object.(runtime.CacheableObject); ok { // of an event for several watches
		object = several.GetObject()
	}
	sent, ok := object.(client.Object)
	if !ok {
		return object // the status of an error
	}
	if event.Type == watch.Added || event.Type == watch.Modified {
		cached, err := k.Get(genericapirequest.WithNamespace(ctx, sent.GetNamespace()), sent.GetName(), &metav1.GetOptions{ResourceVersion: "0"})
		if now, ok := cached.(client.Object); err == nil && ok && now.GetResourceVersion() == sent.GetResourceVersion() {
			sent = now
		} // else, also without an answer, the object of the event is used
	}
	sent.GetObjectKind().SetGroupVersionKind(k.GVK)
	return sent
}
