package service

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/member"
)

// scope is what one watch in a member sees: the slices that carry the mark of a claimed Service, in all namespaces, those
// of the one Service it names, or those of all Services in a namespace.
type scope types.NamespacedName

// scopeOf is the scope in which a Service's slices are seen. Where the member's own controller makes them it copies the
// labels of the Service, and with them our claim.
func scopeOf(service types.NamespacedName, selectorless bool) scope {
	if selectorless {
		return scope(service)
	}
	return scope{}
}

func (s scope) selector() string {
	switch {
	case s == (scope{}):
		return networkingv1alpha1.MultiClusterServicePermanentIDLabel
	case s.Name == "":
		return fmt.Sprintf("%s,%s notin (%s)", discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy, strings.Join(madeHere, ","))
	}
	return discoveryv1.LabelServiceName + "=" + s.Name
}

// pageSize bounds one answer of a plain list, for members that cannot stream one.
const pageSize = 500

// kept is what is remembered of a slice: the manifest of its record, a fraction of the slice in size.
type kept struct {
	raw       []byte
	service   types.NamespacedName
	endpoints int
}

// sliceWatch follows the slices of one scope. It is the store of a reflector.
type sliceWatch struct {
	// project is what matters of a slice; nil for one that does not matter.
	project  func(*discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice
	changed  func(types.NamespacedName)
	complete func()
	stop     context.CancelFunc

	mu     sync.RWMutex
	items  map[types.NamespacedName]kept
	synced bool
}

var _ cache.ReflectorStore = (*sliceWatch)(nil)

// startWatch watches until ctx ends or stop is called. It waits for a member that is away without asking it again and
// again. changed and complete must not block.
func startWatch(ctx context.Context, conn *member.Conn, s scope, project func(*discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice, changed func(types.NamespacedName), complete func()) (*sliceWatch, error) {
	discovery, err := discoveryclient.NewForConfigAndClient(inProtobuf(conn), conn.PatientHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building a client for EndpointSlices: %w", err)
	}
	client := discovery.EndpointSlices(s.Namespace)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = s.selector()
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = s.selector()
			return client.Watch(ctx, options)
		},
	}
	ctx, stop := context.WithCancel(ctx)
	w := &sliceWatch{project: project, changed: changed, complete: complete, stop: stop, items: map[types.NamespacedName]kept{}}
	reflector := cache.NewReflectorWithOptions(lw, &discoveryv1.EndpointSlice{}, w, cache.ReflectorOptions{
		Name:            conn.Name() + "/endpointslices",
		TypeDescription: "EndpointSlice",
		Backoff: &wait.Backoff{
			Duration: 200 * time.Millisecond, Factor: 2, Jitter: 1, Cap: 30 * time.Second, Steps: 16,
		},
	})
	reflector.WatchListPageSize = pageSize
	go reflector.RunWithContext(ctx)
	return w, nil
}

// inProtobuf is for clients of built-in kinds.
func inProtobuf(conn *member.Conn) *rest.Config {
	config := conn.RESTConfig()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	return config
}

// Add implements cache.ReflectorStore.
func (w *sliceWatch) Add(obj any) error { return w.put(obj) }

// Update implements cache.ReflectorStore.
func (w *sliceWatch) Update(obj any) error { return w.put(obj) }

// put remembers a slice. Only what its record would have is news.
func (w *sliceWatch) put(obj any) error {
	key, item, err := w.keep(obj)
	if err != nil {
		return err
	}
	if w.set(key, item) {
		w.changed(key)
	}
	return nil
}

func (w *sliceWatch) keep(obj any) (types.NamespacedName, kept, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return types.NamespacedName{}, kept{}, fmt.Errorf("keeping a %T: not an EndpointSlice", obj)
	}
	key := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Name}
	wanted := w.project(slice)
	if wanted == nil {
		return key, kept{}, nil
	}
	raw, err := encodeSlice(wanted)
	service := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
	return key, kept{raw: raw, service: service, endpoints: len(slice.Endpoints)}, err
}

// set remembers a slice, or forgets one that is not to be collected, and says whether that is news.
func (w *sliceWatch) set(key types.NamespacedName, item kept) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, existed := w.items[key]
	if item.raw == nil {
		delete(w.items, key)
		return existed
	}
	w.items[key] = item
	return !existed || string(old.raw) != string(item.raw)
}

// Delete implements cache.ReflectorStore.
func (w *sliceWatch) Delete(obj any) error {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return fmt.Errorf("deleting a %T: not an EndpointSlice", obj)
	}
	key := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Name}
	if w.set(key, kept{}) {
		w.changed(key)
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (w *sliceWatch) Replace(list []any, _ string) error {
	items := make(map[types.NamespacedName]kept, len(list))
	for _, obj := range list {
		key, item, err := w.keep(obj)
		if err != nil {
			return err
		}
		if item.raw != nil {
			items[key] = item
		}
	}
	w.mu.Lock()
	before := w.items
	w.items, w.synced = items, true
	w.mu.Unlock()
	for key, item := range items {
		if old, existed := before[key]; !existed || string(old.raw) != string(item.raw) {
			w.changed(key)
		}
	}
	for key := range before {
		if _, exists := items[key]; !exists {
			w.changed(key)
		}
	}
	w.complete()
	return nil
}

// Resync implements cache.ReflectorStore.
func (w *sliceWatch) Resync() error { return nil }

func (w *sliceWatch) lookup(slice types.NamespacedName) (kept, bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	item, ok := w.items[slice]
	return item, ok
}

func (w *sliceWatch) hasSynced() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.synced
}

func (w *sliceWatch) slicesOf(service types.NamespacedName) []types.NamespacedName {
	w.mu.RLock()
	defer w.mu.RUnlock()
	var keys []types.NamespacedName
	for key, item := range w.items {
		if item.service == service {
			keys = append(keys, key)
		}
	}
	return keys
}
