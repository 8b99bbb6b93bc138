package storage

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

const (
	// readyPatience is how long a request waits for a watch cache.
	readyPatience = 10 * time.Second
	// readyPoll is how often the watch cache is checked meanwhile.
	readyPoll = 5 * time.Millisecond
)

// AwaitCaches returns a getter of the same storage, whose lists and watches wait until its watch cache is filled. Upstream answers them
// with 429, since a cache over the network may take long. Here it takes milliseconds, but the first request for a custom resource
// always comes before: that request makes its storage.
func AwaitCaches(getter generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return readyGetter{getter}
}

type readyGetter struct{ generic.RESTOptionsGetter }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g readyGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	decorate := options.Decorator
	options.Decorator = func(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		made, destroy, err := decorate(config, prefix, key, newFunc, newListFunc, attributes, triggers, indexers)
		return readyStorage{made}, destroy, err
	}
	return options, nil
}

// readyStorage waits for its watch cache before it lists or watches.
type readyStorage struct{ storage.Interface }

// GetList implements storage.Interface.
func (s readyStorage) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	s.wait(ctx)
	return s.Interface.GetList(ctx, key, opts, list)
}

// Watch implements storage.Interface.
func (s readyStorage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	s.wait(ctx)
	return s.Interface.Watch(ctx, key, opts)
}

// wait returns when the watch cache is filled, or after readyPatience: the storage then answers that it is not.
func (s readyStorage) wait(ctx context.Context) {
	_ = wait.PollUntilContextTimeout(ctx, readyPoll, readyPatience, true, func(context.Context) (bool, error) {
		return s.ReadinessCheck() == nil, nil
	})
}
