package storage

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
// count of its keys is enough.
type Usage struct {
	client *clientv3.Client
	clock  clock.Clock
	prefix string

	mu sync.Mutex
	// watching is whether the watch runs, so that new objects change known.
	watching bool
	// known are the results for the resources that were queried. A result that is true stays true.
	known       map[schema.GroupResource]bool
	subscribers []*func()
}

// NewUsage returns a Usage of what is stored under a prefix, by GROUP/RESOURCE. It owns the client.
func NewUsage(client *clientv3.Client, clk clock.Clock, prefix string) *Usage {
	return &Usage{client: client, clock: clk, prefix: "/" + strings.Trim(prefix, "/") + "/", known: map[schema.GroupResource]bool{}}
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
	for resource, used := range u.known {
		if !used {
			delete(u.known, resource)
		}
	}
}

// stored records that an object was created.
func (u *Usage) stored(key string) {
	resource, ok := u.resourceOf(key)
	if !ok {
		return
	}
	u.mu.Lock()
	used, queried := u.known[resource]
	changed := queried && !used
	if changed {
		u.known[resource] = true
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

// resourceOf is false for keys that are not of that form.
func (u *Usage) resourceOf(key string) (schema.GroupResource, bool) {
	rest, ok := strings.CutPrefix(key, u.prefix)
	if !ok {
		return schema.GroupResource{}, false
	}
	group, rest, _ := strings.Cut(rest, "/")
	resource, _, named := strings.Cut(rest, "/")
	return schema.GroupResource{Group: group, Resource: resource}, named
}

// Used returns whether there are objects of a resource, or were since the first call. It is true when that is
// unknown.
func (u *Usage) Used(ctx context.Context, resource schema.GroupResource) bool {
	u.mu.Lock()
	used, queried := u.known[resource]
	watching := u.watching
	if !queried && watching {
		u.known[resource] = false // before it is counted: an object that is created meanwhile is seen
	}
	u.mu.Unlock()
	if queried {
		return used
	}
	if !u.holds(ctx, resource) {
		return false
	}
	u.mu.Lock()
	u.known[resource] = true
	u.mu.Unlock()
	u.notify() // there may have been calls while it was counted
	return true
}

// Holds returns whether there are objects of a resource at this moment, or were before.
func (u *Usage) Holds(ctx context.Context, resource schema.GroupResource) bool {
	u.mu.Lock()
	used := u.known[resource]
	u.mu.Unlock()
	return used || u.holds(ctx, resource)
}

func (u *Usage) holds(ctx context.Context, resource schema.GroupResource) bool {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	prefix := u.prefix + resource.Group + "/" + resource.Resource + "/"
	answer, err := u.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	return err != nil || answer.Count > 0
}

// Stop closes the client. Run must have returned.
func (u *Usage) Stop() { _ = u.client.Close() }
