package storage

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// countTimeout bounds the request for the number of objects of a kind.
	countTimeout = 10 * time.Second
	// rewatchPause is how long after its end the watch begins again.
	rewatchPause = time.Second
)

// Usage has the resources of which there are objects in storage. To list or watch a custom resource makes its server build
// storage, schemas and validators for it, most of what a definition costs; for an unused kind a
// count of its keys is enough. A watch of a built-in kind costs 100 kB and a dozen goroutines, and of most there are never any objects.
type Usage struct {
	client *clientv3.Client
	clock  clock.Clock
	prefix string

	mu sync.Mutex
	// watching is whether the watch runs, so that new objects change known.
	watching bool
	// places are where built-in kinds are stored, below the prefix. Resources of equal names in two versions of a group may be in two places.
	places map[schema.GroupResource][]string
	// known are the results for the places that were queried. A result that is true stays true.
	known       map[string]bool
	subscribers []*func()
}

// NewUsage returns a Usage of what is stored under a prefix. It owns the client.
func NewUsage(client *clientv3.Client, clk clock.Clock, prefix string) *Usage {
	return &Usage{
		client: client, clock: clk, prefix: "/" + strings.Trim(prefix, "/") + "/",
		places: map[schema.GroupResource][]string{}, known: map[string]bool{},
	}
}

// Wrap returns a getter of the same storage that records where resources are stored.
func (u *Usage) Wrap(getter generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return placingGetter{getter, u}
}

type placingGetter struct {
	generic.RESTOptionsGetter
	usage *Usage
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g placingGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	decorate := options.Decorator
	options.Decorator = func(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		g.usage.place(resource, prefix)
		return decorate(config, prefix, key, newFunc, newListFunc, attributes, triggers, indexers)
	}
	return options, nil
}

// place records where a resource is stored.
func (u *Usage) place(resource schema.GroupResource, place string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if place = strings.Trim(place, "/"); !slices.Contains(u.places[resource], place) {
		u.places[resource] = append(u.places[resource], place)
	}
}

// Stores returns whether it is recorded where a resource is stored.
func (u *Usage) Stores(resource schema.GroupResource) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.places[resource]) > 0
}

// placesOf are where a resource is stored: a custom one by its group and its name.
func (u *Usage) placesOf(resource schema.GroupResource) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if places := u.places[resource]; len(places) > 0 {
		return places
	}
	return []string{resource.Group + "/" + resource.Resource}
}

// Subscribe has notify called when the result for a resource that was queried may have changed. It
// must return quickly. The returned function ends that.
func (u *Usage) Subscribe(notify func()) (stop func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	subscriber := &notify
	u.subscribers = append(u.subscribers, subscriber)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		// Whoever notifies at this time has the old slice.
		u.subscribers = slices.DeleteFunc(slices.Clone(u.subscribers), func(s *func()) bool { return s == subscriber })
	}
}

// Run watches what is created until the context ends.
func (u *Usage) Run(ctx context.Context) {
	for ctx.Err() == nil {
		u.follow(ctx)
		timer := u.clock.NewTimer(rewatchPause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// follow watches until the watch ends.
func (u *Usage) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	defer u.watchEnded()
	watch := u.client.Watch(ctx, u.prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify(), clientv3.WithFilterDelete())
	for response := range watch {
		if err := response.Err(); err != nil {
			log.FromContext(ctx).V(1).Info("The watch of what is stored has ended", "error", err.Error())
			return
		}
		if response.Created {
			u.watchStarted()
		}
		for _, event := range response.Events {
			if event.IsCreate() {
				u.stored(string(event.Kv.Key))
			}
		}
	}
}

// watchStarted records that every object that is created from now on is seen.
func (u *Usage) watchStarted() {
	u.mu.Lock()
	u.watching = true
	u.mu.Unlock()
	u.notify()
}

// watchEnded drops the results that are false, since objects may be created unseen.
func (u *Usage) watchEnded() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.watching = false
	for place, used := range u.known {
		if !used {
			delete(u.known, place)
		}
	}
}

// stored records that an object was created.
func (u *Usage) stored(key string) {
	changed := false
	u.mu.Lock()
	for _, place := range u.placesAbove(key) {
		if used, queried := u.known[place]; queried && !used {
			u.known[place], changed = true, true
		}
	}
	u.mu.Unlock()
	if changed {
		u.notify()
	}
}

func (u *Usage) notify() {
	u.mu.Lock()
	subscribers := u.subscribers
	u.mu.Unlock()
	for _, notify := range subscribers {
		notify := *notify
		notify()
	}
}

// placesAbove are those in which the object of a key may be: the names of places have one or two parts.
func (u *Usage) placesAbove(key string) []string {
	rest, ok := strings.CutPrefix(key, u.prefix)
	if !ok {
		return nil
	}
	first, rest, _ := strings.Cut(rest, "/")
	second, _, _ := strings.Cut(rest, "/")
	return []string{first, first + "/" + second}
}

// Used returns whether there are objects of a resource, or were since the first call. It is true when that is
// unknown.
func (u *Usage) Used(ctx context.Context, resource schema.GroupResource) bool {
	return slices.ContainsFunc(u.placesOf(resource), func(place string) bool { return u.used(ctx, place) })
}

func (u *Usage) used(ctx context.Context, place string) bool {
	u.mu.Lock()
	used, queried := u.known[place]
	watching := u.watching
	if !queried && watching {
		u.known[place] = false // before it is counted: an object that is created meanwhile is seen
	}
	u.mu.Unlock()
	if queried {
		return used
	}
	if !u.holds(ctx, place) {
		return false
	}
	u.mu.Lock()
	u.known[place] = true
	u.mu.Unlock()
	u.notify() // there may have been calls while it was counted
	return true
}

// Holds returns whether there are objects of a resource at this moment, or were before.
func (u *Usage) Holds(ctx context.Context, resource schema.GroupResource) bool {
	return slices.ContainsFunc(u.placesOf(resource), func(place string) bool {
		u.mu.Lock()
		used := u.known[place]
		u.mu.Unlock()
		return used || u.holds(ctx, place)
	})
}

func (u *Usage) holds(ctx context.Context, place string) bool {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	answer, err := u.client.Get(ctx, u.prefix+place+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	return err != nil || answer.Count > 0
}

// Stop closes the client. Run must have returned.
func (u *Usage) Stop() { _ = u.client.Close() }
