package storage

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	etcdkubernetes "go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/eventstorage"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// compactInterval is how often history is compacted: watches that were away for longer start over.
const compactInterval = 5 * time.Minute

// Direct makes storage in the etcd of this process.
type Direct struct {
	server    *etcdserver.EtcdServer
	compactor compactor
	client    *clientv3.Client
	clock     clock.WithTicker
	// uncached are resources without a watch cache.
	uncached map[schema.GroupResource]bool
}

// compactor is what upstream's compactor of an unexported type can do.
type compactor interface {
	etcd3.Compactor
	Stop()
}

// New connects to a running etcd. uncached names resources that get no watch cache, as they are written
// often and read seldom.
func New(server *etcdserver.EtcdServer, clk clock.WithTicker, uncached ...schema.GroupResource) *Direct {
	client := v3client.New(server)
	d := &Direct{server: server, client: client, clock: clk, uncached: map[schema.GroupResource]bool{}}
	d.compactor = etcd3.NewCompactor(client, compactInterval, clk, nil)
	for _, resource := range uncached {
		d.uncached[resource] = true
	}
	return d
}

// Stop ends compaction. Storage that was made must have been destroyed before.
func (d *Direct) Stop() {
	d.compactor.Stop()
	_ = d.client.Close()
}

// Wrap returns a getter whose options lead to direct storage.
func (d *Direct) Wrap(getter generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return directGetter{RESTOptionsGetter: getter, direct: d}
}

// WithEvents returns a getter that differs in the options of Events: their storage includes those in memory. client reaches the
// etcd of the stored Events. The caller closes it after the server has ended.
func WithEvents(getter generic.RESTOptionsGetter, client *clientv3.Client, memory *events.Memory) generic.RESTOptionsGetter {
	return eventsGetter{RESTOptionsGetter: getter, client: client, memory: memory}
}

type eventsGetter struct {
	generic.RESTOptionsGetter
	client *clientv3.Client
	memory *events.Memory
}

// GetRESTOptions returns the wrapped getter's options, for Events with another way to make storage.
func (g eventsGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if resource == corev1.Resource("events") {
		options.Decorator = g.decorate
	}
	return options, err
}

// decorate is a generic.StorageDecorator. Events have no watch cache.
func (g eventsGetter) decorate(config *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object, _ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	// Who watches through the same connection receives others' progress notifications, which no watch of Events has.
	client := &etcdkubernetes.Client{Client: g.client}
	client.Kubernetes = client
	stored, destroy, err := newStore(client, nil, eventstorage.Versioner{}, config, prefix, newFunc, newListFunc)
	if err != nil {
		return nil, nil, err
	}
	return eventstorage.New(stored, g.memory, prefix), destroy, nil
}

type directGetter struct {
	generic.RESTOptionsGetter
	direct *Direct
}

// GetRESTOptions returns the wrapped getter's options with another way to make storage.
func (g directGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	options.Decorator = g.direct.cached
	if g.direct.uncached[resource] {
		options.Decorator = g.direct.Plain
	}
	return options, err
}

// Plain is a generic.StorageDecorator without a cache.
func (d *Direct) Plain(config *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object, _ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	return d.store(config, prefix, newFunc, newListFunc)
}

// cached is a generic.StorageDecorator with a watch cache in front of the storage.
func (d *Direct) cached(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	store, destroy, err := d.store(config, prefix, newFunc, newListFunc)
	if err != nil {
		return nil, nil, err
	}
	watched, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage:             cacheStorage{store, d.clock},
		Versioner:           storage.APIObjectVersioner{},
		GroupResource:       config.GroupResource,
		EventsHistoryWindow: config.EventsHistoryWindow,
		ResourcePrefix:      prefix,
		KeyFunc:             key,
		NewFunc:             newFunc,
		NewListFunc:         newListFunc,
		GetAttrsFunc:        attributes,
		IndexerFuncs:        triggers,
		Indexers:            indexers,
		Codec:               config.Codec,
	})
	if err != nil {
		destroy()
		return nil, nil, err
	}
	delegator := cacher.NewCacheDelegator(watched, store)
	var once sync.Once
	return delegator, func() {
		// Upstream destroys storage once for every subresource that shares it.
		once.Do(func() {
			delegator.Stop()
			watched.Stop()
			destroy()
		})
	}, nil
}

// store makes the storage itself.
func (d *Direct) store(config *storagebackend.ConfigForResource, prefix string, newFunc, newListFunc func() runtime.Object) (storage.Interface, factory.DestroyFunc, error) {
	// One client each: those who watch through one client get each other's progress notifications.
	client := &etcdkubernetes.Client{Client: v3client.New(d.server)}
	client.Kubernetes = client
	client.KV = etcd3.NewETCDLatencyTracker(pausing{client.KV})
	store, stop, err := newStore(client, d.compactor, storage.APIObjectVersioner{}, config, prefix, newFunc, newListFunc)
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return store, sync.OnceFunc(func() {
		stop()
		_ = client.Close()
	}), nil
}

// newStore makes storage in the etcd of a client.
func newStore(client *etcdkubernetes.Client, compactor etcd3.Compactor, versioner storage.Versioner,
	config *storagebackend.ConfigForResource, prefix string, newFunc, newListFunc func() runtime.Object,
) (storage.Interface, factory.DestroyFunc, error) {
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	decoder := etcd3.NewDefaultDecoder(config.Codec, versioner)
	tolerant := utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
	if tolerant {
		transformer = etcd3.WithCorruptObjErrorHandlingTransformer(transformer)
		decoder = etcd3.WithCorruptObjErrorHandlingDecoder(decoder)
	}
	store, err := etcd3.New(client, compactor, config.Codec, newFunc, newListFunc, config.Prefix, prefix,
		config.GroupResource, transformer, config.LeaseManagerConfig, untyped{decoder}, versioner)
	if err != nil {
		return nil, nil, err
	}
	stop := sync.OnceFunc(store.Close)
	if tolerant {
		return etcd3.NewStoreWithUnsafeCorruptObjectDeletion(store, config.GroupResource), stop, nil
	}
	return store, stop, nil
}

// pausing releases the slot of a reconcile while it waits for etcd.
type pausing struct{ clientv3.KV }

// Get implements clientv3.KV.
func (p pausing) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	defer controlloop.Pause(ctx)()
	return p.KV.Get(ctx, key, opts...)
}

// Txn implements clientv3.KV.
func (p pausing) Txn(ctx context.Context) clientv3.Txn {
	return pausingTxn{p.KV.Txn(ctx), controlloop.SlotOf(ctx)}
}

type pausingTxn struct {
	clientv3.Txn
	slot *controlloop.Slot
}

func (t pausingTxn) If(cs ...clientv3.Cmp) clientv3.Txn { return pausingTxn{t.Txn.If(cs...), t.slot} }
func (t pausingTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	return pausingTxn{t.Txn.Then(ops...), t.slot}
}
func (t pausingTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	return pausingTxn{t.Txn.Else(ops...), t.slot}
}

func (t pausingTxn) Commit() (*clientv3.TxnResponse, error) {
	defer t.slot.Pause()()
	return t.Txn.Commit()
}
