package objectcache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

const (
	// linger is how long a watch survives its last holder: an object that is replaced needs it again at once.
	linger = time.Minute
)

// managedOnly selects the objects that are ours.
const managedOnly = workv1alpha1.ManagedLabel + "=" + workv1alpha1.ManagedLabelValue

// Config is what a Cache needs.
type Config struct {
	Cluster string
	// Client waits while the member is unavailable, instead of failing.
	Client memberwatch.Client
	Clock  clock.Clock
	// Codec compresses what is kept.
	Codec *Codec
	// Group runs the watches.
	Group *memberwatch.Group
	// Changed is called for every change. It must not block.
	Changed func(Change)
	// Ordered returns whether a Work is one of this cluster. It is a function because the Works are in the caches of the host. Default: every
	// one is.
	Ordered func(work types.NamespacedName) bool
	// Get reads an object from the member. Required with Ordered.
	Get func(ctx context.Context, resource schema.GroupVersionResource, key types.NamespacedName) (*unstructured.Unstructured, error)
	// Account is that of all that is kept. Nil: it has no bound.
	Account *bounds.Account
	// Lost returns how many requests to the member got no answer so far.
	Lost         func() uint64
	ControlPlane ownership.ControlPlane
}

// Cache has the managed objects of one member: those of the resources that are held, each of which has a watch.
type Cache struct {
	config Config

	mu      sync.RWMutex
	holders map[string][]schema.GroupVersionResource // a few each, two holders per Work: sets would take ten times as much
	running map[schema.GroupVersionResource]*running
}

type running struct {
	objects *objects
	holders int
	left    int // how often the last holder left
	stop    context.CancelFunc
}

// New returns a cache of nothing.
func New(config Config) *Cache { return &Cache{config: config} }

// Hold makes sure that managed objects of exactly these resources are watched for the holder, in place of those it held
// before. A holder is any name; apply and observe use one per Work. A resource that is not served is requested with a
// backoff until it is.
func (c *Cache) Hold(holder string, resources ...schema.GroupVersionResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.holders[holder]
	var wanted []schema.GroupVersionResource // each once
	for _, resource := range resources {
		if slices.Contains(wanted, resource) {
			continue
		}
		wanted = append(wanted, resource)
		if !slices.Contains(held, resource) {
			c.start(resource).holders++
		}
	}
	for _, resource := range held {
		if slices.Contains(wanted, resource) {
			continue
		}
		if r := c.running[resource]; r != nil {
			r.holders--
			c.stopLater(resource, r)
		}
	}
	if c.holders == nil {
		c.holders = map[string][]schema.GroupVersionResource{}
	}
	if len(wanted) == 0 {
		delete(c.holders, holder)
	} else {
		c.holders[holder] = wanted
	}
}

// Release is Hold of nothing. A watch without holders ends after a minute.
func (c *Cache) Release(holder string) { c.Hold(holder) }

// Lookup returns a managed object as the watch received it last, without the field ownership of others. The copy belongs to
// the caller. It is not found unless its resource is held, nor if its Work is not one of this cluster; see Head.
func (c *Cache) Lookup(resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, bool) {
	o := c.objects(resource)
	if o == nil {
		return nil, false
	}
	return o.lookup(types.NamespacedName{Namespace: namespace, Name: name}, false)
}

// Head is Lookup for objects of any Work. Of one whose Work is not one of this cluster it has the names, the uid, the times, the Work and
// whether this control plane owns fields of it, and nothing else.
func (c *Cache) Head(resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, bool) {
	o := c.objects(resource)
	if o == nil {
		return nil, false
	}
	return o.lookup(types.NamespacedName{Namespace: namespace, Name: name}, true)
}

// HasSynced returns whether what Lookup does not find did not exist when the watch began.
func (c *Cache) HasSynced(resource schema.GroupVersionResource) bool {
	o := c.objects(resource)
	return o != nil && o.hasSynced()
}

// Refused is the member's refusal to let the control plane list a resource that is held, or nil. While there is one, Lookup
// finds nothing, and it is tried again every half minute.
func (c *Cache) Refused(resource schema.GroupVersionResource) error {
	if o := c.objects(resource); o != nil {
		return o.refusal()
	}
	return nil
}

// WhenSynced calls f once HasSynced is true, at once if it is, never if the watch ends before. f must not block.
func (c *Cache) WhenSynced(resource schema.GroupVersionResource, f func()) {
	if o := c.objects(resource); o != nil {
		o.whenSynced(f)
	}
}

// Owned lists what is watched and belongs to a Work by its annotations. It is not complete if only the head of an object is kept: the Work
// has appeared just now, and the object is being read.
func (c *Cache) Owned(work types.NamespacedName) (found []*unstructured.Unstructured, complete bool) {
	complete = true
	for _, p := range c.Places(work) {
		if obj, ok := c.Lookup(p.Resource, p.Object.Namespace, p.Object.Name); ok {
			found = append(found, obj)
		} else if _, headed := c.Head(p.Resource, p.Object.Namespace, p.Object.Name); headed {
			complete = false
		}
	}
	return found, complete
}

// Heads lists the heads of what is watched and belongs to a Work by its annotations, whether there is such a Work or not.
func (c *Cache) Heads(work types.NamespacedName) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, p := range c.Places(work) {
		if obj, ok := c.Head(p.Resource, p.Object.Namespace, p.Object.Name); ok {
			found = append(found, obj)
		}
	}
	return found
}

// Appeared has the objects of a Work read in full of which only the heads are kept. It does not block.
func (c *Cache) Appeared(work types.NamespacedName) {
	for _, o := range c.watched() {
		if keys := o.heads(work); len(keys) > 0 {
			o.read(keys...)
		}
	}
}

// readAgain is how long the first pause is before an object is read again, and readTimes how often it is read: a member that is away is
// listed again once it is back.
const (
	readAgain = time.Second
	readTimes = 5
)

// fill reads objects from the member.
func (c *Cache) fill(ctx context.Context, o *objects, keys []types.NamespacedName) {
	for _, key := range keys {
		var failure error
		err := wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Duration: readAgain, Factor: 2, Steps: readTimes}, func(ctx context.Context) (bool, error) {
			object, err := c.config.Get(ctx, o.resource, key)
			if apierrors.IsNotFound(err) {
				return true, nil // the watch shows that
			}
			failure = err
			if failure != nil { // it is read again
				return false, nil
			}
			if object.GetLabels()[workv1alpha1.ManagedLabel] != workv1alpha1.ManagedLabelValue {
				return true, nil
			}
			return true, o.put(object, true)
		})
		if err != nil && ctx.Err() == nil {
			utilruntime.HandleErrorWithContext(ctx, errors.Join(err, failure), "Failed to read an object", "cluster", c.config.Cluster, "resource", o.resource, "object", key)
		}
	}
}

// AddWritten stores an object from the answer to a write of ours, so that Lookup finds it before the watch shows it. The
// object must not be used afterwards. One whose resource is not held is not kept.
func (c *Cache) AddWritten(resource schema.GroupVersionResource, obj *unstructured.Unstructured) {
	o := c.objects(resource)
	if o == nil || obj.GetLabels()[workv1alpha1.ManagedLabel] != workv1alpha1.ManagedLabelValue {
		return
	}
	_ = o.put(obj, true) // it was decoded from JSON just now, so it can be encoded
}

// Place is where an object is in a member.
type Place struct {
	Resource schema.GroupVersionResource
	Object   types.NamespacedName
}

// Places is Owned, but returns only where the objects are.
func (c *Cache) Places(work types.NamespacedName) []Place {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var places []Place
	for resource, r := range c.running {
		for _, key := range r.objects.owned(work) {
			places = append(places, Place{Resource: resource, Object: key})
		}
	}
	return places
}

// Managed calls visit for every managed object that is watched, with the Work that it belongs to by its annotations.
func (c *Cache) Managed(visit func(place Place, work types.NamespacedName)) {
	for resource, o := range c.watched() {
		for key, work := range o.works() {
			visit(Place{Resource: resource, Object: key}, work)
		}
	}
}

// Replay calls f with the changes that lead from nothing to what is known.
func (c *Cache) Replay(f func(Change)) {
	for resource, o := range c.watched() {
		for key, work := range o.works() {
			f(Change{Cluster: c.config.Cluster, Resource: resource, Object: key, Work: work, New: true, Listed: true})
		}
		if o.hasSynced() {
			f(Change{Cluster: c.config.Cluster, Resource: resource, Synced: true})
		}
	}
}

func (c *Cache) watched() map[schema.GroupVersionResource]*objects {
	c.mu.RLock()
	defer c.mu.RUnlock()
	watched := make(map[schema.GroupVersionResource]*objects, len(c.running))
	for resource, r := range c.running {
		watched[resource] = r.objects
	}
	return watched
}

// Passed returns whether the watch has shown a version or a later one, so that what Lookup does not find is not there any
// more.
func (c *Cache) Passed(resource schema.GroupVersionResource, version string) bool {
	o := c.objects(resource)
	return o != nil && o.hasPassed(version)
}

func (c *Cache) objects(resource schema.GroupVersionResource) *objects {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.running[resource]; r != nil {
		return r.objects
	}
	return nil
}

// start returns the watch of a resource, and starts it if there is none. The lock is held.
func (c *Cache) start(resource schema.GroupVersionResource) *running {
	if r, ok := c.running[resource]; ok {
		return r
	}
	if c.running == nil {
		c.running = map[schema.GroupVersionResource]*running{}
	}
	store := newObjects(c.config, resource)
	store.read = func(keys ...types.NamespacedName) {
		c.config.Group.Go(func(ctx context.Context) { c.fill(ctx, store, keys) })
	}
	r := &running{objects: store, stop: c.config.Group.Follow(c.config.Cluster+"/"+resource.Resource, c.source(resource, store), store)}
	c.running[resource] = r
	return r
}

// stopLater ends a watch that is not held any more, unless it is held again within a minute. The lock is held.
func (c *Cache) stopLater(resource schema.GroupVersionResource, r *running) {
	if r.holders > 0 {
		return
	}
	r.left++
	left := r.left
	c.config.Group.Go(func(ctx context.Context) {
		timer := c.config.Clock.NewTimer(linger)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.holders == 0 && r.left == left && c.running[resource] == r {
			r.stop()
			delete(c.running, resource)
		}
	})
}

func (c *Cache) source(resource schema.GroupVersionResource, store *objects) memberwatch.Source {
	all := c.config.Client.Objects(resource, metav1.NamespaceAll)
	list := all.List
	all.List = func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list, err := list(ctx, options)
		store.listed(err)
		return list, err
	}
	all.Account = c.config.Account
	return memberwatch.Selecting(all, func(options *metav1.ListOptions) { options.LabelSelector = managedOnly })
}
