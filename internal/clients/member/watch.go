package member

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

const (
	// linger is how long a watch survives its last holder: an object that is replaced needs it again at once.
	linger = time.Minute
	// pageSize bounds one answer of a plain list, for members that cannot stream one.
	pageSize = 500
)

// managedOnly selects the objects that are ours.
const managedOnly = workv1alpha1.ManagedLabel + "=" + workv1alpha1.ManagedLabelValue

// watches are the watches for managed objects of one member, one per resource that somebody holds.
type watches struct {
	cluster string
	client  dynamic.Interface // patient
	clock   clock.Clock
	ctx     context.Context // of the connection
	changed func(Change)
	lost    func() uint64
	control ControlPlane

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

// Hold makes sure that managed objects of exactly these resources are watched for the holder, in place of those it held
// before. A holder is any name; apply and observe use one per Work. A resource that is not served is asked for with a
// backoff until it is.
func (c *Conn) Hold(holder string, resources ...schema.GroupVersionResource) {
	c.watches.hold(holder, resources)
}

// Release is Hold of nothing. A watch without holders ends after a minute.
func (c *Conn) Release(holder string) { c.watches.hold(holder, nil) }

// Lookup returns a managed object as the watch saw it last, without the field ownership of others. The copy belongs to
// the caller. It is not found while nobody holds its resource.
func (c *Conn) Lookup(resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, bool) {
	o := c.watches.objects(resource)
	if o == nil {
		return nil, false
	}
	return o.lookup(types.NamespacedName{Namespace: namespace, Name: name})
}

// HasSynced tells whether what Lookup does not find did not exist when the watch began.
func (c *Conn) HasSynced(resource schema.GroupVersionResource) bool {
	o := c.watches.objects(resource)
	return o != nil && o.hasSynced()
}

// Refused is the member's refusal to let the control plane list a resource that is held, or nil. While there is one, Lookup
// finds nothing, and it is asked for again every half minute.
func (c *Conn) Refused(resource schema.GroupVersionResource) error {
	if o := c.watches.objects(resource); o != nil {
		return o.refusal()
	}
	return nil
}

// WhenSynced calls f once HasSynced is true, at once if it is, never if the watch ends before. f must not block.
func (c *Conn) WhenSynced(resource schema.GroupVersionResource, f func()) {
	if o := c.watches.objects(resource); o != nil {
		o.whenSynced(f)
	}
}

// Owned lists what is watched and belongs to a Work by its annotations.
func (c *Conn) Owned(work types.NamespacedName) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, p := range c.Places(work) {
		if obj, ok := c.Lookup(p.Resource, p.Object.Namespace, p.Object.Name); ok {
			found = append(found, obj)
		}
	}
	return found
}

// Saw takes over an object from the answer to a write of ours, so that Lookup finds it before the watch tells. The
// object must not be used afterwards. One whose resource nobody holds is not kept.
func (c *Conn) Saw(resource schema.GroupVersionResource, obj *unstructured.Unstructured) {
	o := c.watches.objects(resource)
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

// Places is Owned that tells only where the objects are.
func (c *Conn) Places(work types.NamespacedName) []Place {
	c.watches.mu.RLock()
	defer c.watches.mu.RUnlock()
	var places []Place
	for resource, r := range c.watches.running {
		for _, key := range r.objects.owned(work) {
			places = append(places, Place{Resource: resource, Object: key})
		}
	}
	return places
}

// Managed calls visit for every managed object that is watched, with the Work that it belongs to by its annotations.
func (c *Conn) Managed(visit func(place Place, work types.NamespacedName)) {
	c.watches.mu.RLock()
	watched := make(map[schema.GroupVersionResource]*objects, len(c.watches.running))
	for resource, r := range c.watches.running {
		watched[resource] = r.objects
	}
	c.watches.mu.RUnlock()
	for resource, o := range watched {
		for key, work := range o.works() {
			visit(Place{Resource: resource, Object: key}, work)
		}
	}
}

// Passed tells whether the watch has shown a version or a later one, so that what Lookup does not find is not there any
// more.
func (c *Conn) Passed(resource schema.GroupVersionResource, version string) bool {
	o := c.watches.objects(resource)
	return o != nil && o.hasPassed(version)
}

func (w *watches) objects(resource schema.GroupVersionResource) *objects {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if r := w.running[resource]; r != nil {
		return r.objects
	}
	return nil
}

func (w *watches) hold(holder string, resources []schema.GroupVersionResource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := w.holders[holder]
	var wanted []schema.GroupVersionResource // each once
	for _, resource := range resources {
		if slices.Contains(wanted, resource) {
			continue
		}
		wanted = append(wanted, resource)
		if !slices.Contains(held, resource) {
			w.start(resource).holders++
		}
	}
	for _, resource := range held {
		if slices.Contains(wanted, resource) {
			continue
		}
		if r := w.running[resource]; r != nil {
			r.holders--
			w.stopLater(resource, r)
		}
	}
	if w.holders == nil {
		w.holders = map[string][]schema.GroupVersionResource{}
	}
	if len(wanted) == 0 {
		delete(w.holders, holder)
	} else {
		w.holders[holder] = wanted
	}
}

// start returns the watch of a resource, which it starts if nobody did. The lock is held.
func (w *watches) start(resource schema.GroupVersionResource) *running {
	if r, ok := w.running[resource]; ok {
		return r
	}
	if w.running == nil {
		w.running = map[schema.GroupVersionResource]*running{}
	}
	ctx, stop := context.WithCancel(w.ctx)
	r := &running{objects: newObjects(w.cluster, resource, w.control, w.changed, w.lost), stop: stop}
	w.running[resource] = r
	go w.reflect(ctx, resource, r.objects)
	return r
}

// stopLater ends a watch that nobody holds any more, unless somebody comes back within the linger. The lock is held.
func (w *watches) stopLater(resource schema.GroupVersionResource, r *running) {
	if r.holders > 0 {
		return
	}
	r.left++
	left := r.left
	go func() {
		timer := w.clock.NewTimer(linger)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-w.ctx.Done():
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if r.holders == 0 && r.left == left && w.running[resource] == r {
			r.stop()
			delete(w.running, resource)
		}
	}()
}

func (w *watches) reflect(ctx context.Context, resource schema.GroupVersionResource, store *objects) {
	client := w.client.Resource(resource)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = managedOnly
			list, err := client.List(ctx, options)
			store.listed(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = managedOnly
			return client.Watch(ctx, options)
		},
	}
	reflector := cache.NewReflectorWithOptions(lw, nil, store, cache.ReflectorOptions{
		Name:            w.cluster + "/" + resource.Resource,
		TypeDescription: resource.String(),
		Backoff: &wait.Backoff{
			Duration: 200 * time.Millisecond, Factor: 2, Jitter: 1, Cap: 30 * time.Second, Steps: 16,
		},
	})
	reflector.WatchListPageSize = pageSize
	reflector.RunWithContext(ctx)
}
