package controlloop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// GetCache returns the cache of the manager. Of the informers that the parts of the loop get from it, /readyz reports whether they have synced,
// and their event handlers are those of Loop.Handlers.
func (m *Manager) GetCache() cache.Cache { return &loopCache{Cache: m.Manager.GetCache(), manager: m} }

// GetFieldIndexer returns the indexer of the manager. An object about which an index function panics has no value in that index; client-go
// alone would pass no event of it to any handler.
func (m *Manager) GetFieldIndexer() client.FieldIndexer {
	return loopIndexer{m.Manager.GetFieldIndexer(), m.loop}
}

type loopIndexer struct {
	client.FieldIndexer
	loop *Loop
}

// IndexField implements client.FieldIndexer.
func (i loopIndexer) IndexField(ctx context.Context, kind client.Object, field string, extract client.IndexerFunc) error {
	logger := log.FromContext(ctx).WithName(i.loop.name).WithValues("index", field)
	return i.FieldIndexer.IndexField(ctx, kind, field, func(obj client.Object) (values []string) {
		err := CatchPanic(func() error {
			values = extract(obj)
			return nil
		})
		if err != nil {
			i.loop.panicked()
			logPanic(logger.WithValues("object", client.ObjectKeyFromObject(obj)), err, "An index function panicked, the object has no value in the index")
			return nil
		}
		return values
	})
}

// loopCache is the cache of a manager for the parts of one loop.
type loopCache struct {
	cache.Cache
	manager *Manager
}

// GetInformer implements cache.Informers.
func (c *loopCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	kind := fmt.Sprintf("%T", obj)
	if gvk, err := apiutil.GVKForObject(obj, c.manager.GetScheme()); err == nil {
		kind = gvk.Kind
	}
	return c.informer(ctx, kind, func() (cache.Informer, error) { return c.Cache.GetInformer(ctx, obj, opts...) })
}

// GetInformerForKind implements cache.Informers.
func (c *loopCache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	return c.informer(ctx, gvk.Kind, func() (cache.Informer, error) { return c.Cache.GetInformerForKind(ctx, gvk, opts...) })
}

func (c *loopCache) informer(ctx context.Context, kind string, get func() (cache.Informer, error)) (cache.Informer, error) {
	handlers, err := c.manager.eventHandlers()
	if err != nil {
		return nil, err
	}
	c.manager.loop.WaitsFor(kind, func() bool { return false }) // the call below may return when the informer has synced
	informer, err := get()
	if err != nil {
		return nil, err
	}
	c.manager.loop.WaitsFor(kind, informer.HasSynced)
	return &loopInformer{informer, kind, handlers, log.FromContext(ctx).WithName(c.manager.loop.name).WithValues("kind", kind)}, nil
}

// eventHandlers returns the event handlers of the loop, and has the manager run what they need when they are used first.
func (m *Manager) eventHandlers() (*Handlers, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.handlers != nil {
		return m.handlers, nil
	}
	handlers := m.loop.Handlers()
	if err := m.Manager.Add(handlers); err != nil {
		return nil, fmt.Errorf("adding the event handlers of loop %s: %w", m.loop.name, err)
	}
	m.handlers = handlers
	return handlers, nil
}

// loopInformer is an informer for the parts of one loop.
type loopInformer struct {
	cache.Informer
	kind     string
	handlers *Handlers
	logger   logr.Logger
}

// AddEventHandler implements cache.Informer.
func (i *loopInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.registered(i.Informer.AddEventHandler(i.handlers.Wrap(i.logger, handler)))
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (i *loopInformer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, resync time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.registered(i.Informer.AddEventHandlerWithResyncPeriod(i.handlers.Wrap(i.logger, handler), resync))
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *loopInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.registered(i.Informer.AddEventHandlerWithOptions(i.handlers.Wrap(i.logger, handler), options))
}

// registered has the loop wait until a handler has had the objects that the informer had at first.
func (i *loopInformer) registered(handle toolscache.ResourceEventHandlerRegistration, err error) (toolscache.ResourceEventHandlerRegistration, error) {
	if err == nil {
		i.handlers.loop.WaitsFor(i.kind, handle.HasSynced)
	}
	return handle, err
}

// WaitsFor has the loop count as not ready until a cache of it has synced. Another call for the same cache replaces the function.
func (l *Loop) WaitsFor(cache string, synced func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.caches[cache] = synced
}

// unsynced lists the caches of the loop that have not synced, in order.
func (l *Loop) unsynced() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for name, synced := range l.caches {
		if synced() {
			delete(l.caches, name) // it does not change any more
		} else {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
