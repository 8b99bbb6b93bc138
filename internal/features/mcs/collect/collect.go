package collect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flagship-k8s/flagship/internal/clients/member/memberqueue"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/features/mcs/metrics"
)

// Deps is what collecting needs besides the manager's client and cache.
type Deps struct {
	// Client is that of package hubclient. Required.
	Client client.Client
	// Fleet has the connections to the providers. Required.
	Fleet *member.Fleet
	// Metrics takes what collecting tells about its work. Nil: nobody asks.
	Metrics prometheus.Registerer
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Workers is how many slices of one provider are written at a time. Default 4.
	Workers int
}

// collector keeps a record of every slice of the Services that members are registered to provide. It knows the hub by
// Works alone, so it runs wherever a connection is.
type collector struct {
	client  client.Client
	cache   cache.Cache
	fleet   *member.Fleet
	queues  *memberqueue.Queues
	own     endpointslices.OwnWrites
	metrics *metrics.Collect

	mu        sync.Mutex
	ctx       context.Context // nil until Start
	providers map[string]*provider
}

// provider is what is collected in one member.
type provider struct {
	conn *member.Conn
	// services are those the member is registered for; true if a Service has no selector.
	services map[types.NamespacedName]bool
	watches  map[endpointslices.Scope]*endpointslices.SliceWatch
}

// Setup adds collecting to a manager.
func Setup(mgr ctrl.Manager, deps Deps) error {
	if deps.Client == nil || deps.Fleet == nil {
		return errors.New("collecting endpoints needs Client and Fleet")
	}
	if deps.Clock == nil {
		deps.Clock = clock.RealClock{}
	}
	if deps.Workers == 0 {
		deps.Workers = 4
	}
	c := &collector{client: deps.Client, cache: mgr.GetCache(), fleet: deps.Fleet, providers: map[string]*provider{}}
	c.queues = memberqueue.New("collect", deps.Fleet, deps.Clock, deps.Workers, c.reconcile)
	c.metrics = metrics.NewCollect(deps.Metrics, deps.Clock)
	deps.Fleet.Subscribe(c.settle)
	if err := mgr.Add(c); err != nil {
		return fmt.Errorf("adding the collection of endpoints: %w", err)
	}
	return nil
}

// Start implements manager.Runnable: it follows the registrations until ctx ends.
func (c *collector) Start(ctx context.Context) error {
	works, err := c.cache.GetInformer(ctx, &workv1alpha1.Work{})
	if err != nil {
		return fmt.Errorf("watching Works: %w", err)
	}
	handle, err := works.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(work any, initial bool) { c.workChanged(nil, work, initial) },
		UpdateFunc: func(before, work any) { c.workChanged(before, work, false) },
		DeleteFunc: c.workDeleted,
	})
	if err != nil {
		return fmt.Errorf("watching Works: %w", err)
	}
	defer func() { _ = works.RemoveEventHandler(handle) }() // the cache ends with us
	if !toolscache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
		return nil
	}
	c.begin(ctx)
	return c.queues.Start(ctx)
}

// begin watches members once every registration there was is known: while a Service is missing from a member's, nobody can
// tell whether the member lacks a slice or nobody looks for it.
func (c *collector) begin(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx = ctx
	for cluster, p := range c.providers {
		c.adjust(cluster, p)
	}
}

// workChanged follows registrations, and looks after records that somebody else changed. Those that are there at the start
// are looked at when their provider's slices have been seen.
func (c *collector) workChanged(was, is any, initial bool) {
	work, ok := is.(*workv1alpha1.Work)
	if !ok {
		return
	}
	before, _ := was.(*workv1alpha1.Work)
	if mcswork.IsRegistration(work) {
		c.registrationChanged(work)
	}
	if initial || before != nil && !endpointslices.Changed(before, work) || c.own.Observe(work) {
		return
	}
	for _, w := range []*workv1alpha1.Work{before, work} { // what it is may be what was changed
		if w == nil || !mcswork.IsCollected(w) {
			continue
		}
		if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(w.Namespace); ok {
			c.queues.Add(cluster, endpointslices.SliceOf(w))
		}
	}
}

func (c *collector) registrationChanged(work *workv1alpha1.Work) {
	if work.DeletionTimestamp != nil {
		c.workDeleted(work)
		return
	}
	if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace); ok {
		c.startCollecting(cluster, mcswork.OwnerOf(work), work.Annotations[networkingv1alpha1.SelectorlessServiceAnnotation] == "true")
	}
}

func (c *collector) workDeleted(obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	work, ok := obj.(*workv1alpha1.Work)
	if !ok || !networkingv1alpha1.IsRecord(work) {
		return
	}
	c.own.Forget(client.ObjectKeyFromObject(work))
	cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	switch {
	case !ok:
	case mcswork.IsRegistration(work):
		c.stopCollecting(cluster, mcswork.OwnerOf(work))
	default:
		c.queues.Add(cluster, endpointslices.SliceOf(work)) // somebody may have taken it away for no reason
	}
}

// enlist has the slices of a Service collected in a member.
func (c *collector) startCollecting(cluster string, service types.NamespacedName, selectorless bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.providers[cluster]
	if p == nil {
		p = &provider{services: map[types.NamespacedName]bool{}, watches: map[endpointslices.Scope]*endpointslices.SliceWatch{}}
		c.providers[cluster] = p
	}
	known, there := p.services[service]
	if there && known == selectorless {
		return
	}
	p.services[service] = selectorless
	c.adjust(cluster, p)
	if there && c.ctx != nil { // what was seen by the watch that ended may not be seen by another
		c.recheck(cluster)
	}
	// Slices that were seen before anybody asked for them.
	for _, w := range p.watches {
		for _, slice := range w.Keys(endpointslices.OfService(service)) {
			c.queues.Add(cluster, slice)
		}
	}
}

// discharge ends that.
func (c *collector) stopCollecting(cluster string, service types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.providers[cluster]
	if p == nil {
		return
	}
	delete(p.services, service)
	c.adjust(cluster, p)
	if len(p.services) == 0 {
		delete(c.providers, cluster)
	}
}

// settle follows the coming and going of a connection.
func (c *collector) settle(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.providers[cluster]; p != nil {
		c.adjust(cluster, p)
	}
}

// adjust makes the watches in a member what its services need. The lock is held.
func (c *collector) adjust(cluster string, p *provider) {
	if c.ctx == nil {
		return // begin looks at all
	}
	conn, connected := c.fleet.Get(cluster)
	if !connected || conn != p.conn {
		for s, w := range p.watches {
			w.Stop()
			delete(p.watches, s)
		}
		p.conn = conn
	}
	wanted := map[endpointslices.Scope]bool{}
	if connected {
		for service, selectorless := range p.services {
			wanted[endpointslices.ScopeOf(service, selectorless)] = true
		}
	}
	for s, w := range p.watches {
		if !wanted[s] {
			w.Stop()
			delete(p.watches, s)
		}
	}
	for s := range wanted {
		if p.watches[s] != nil {
			continue
		}
		w, err := endpointslices.StartSlices(c.ctx, conn, s, endpointslices.Collected, endpointslices.Handlers{Changed: c.noticed(cluster), Listed: func() { c.recheck(cluster) }})
		if err != nil { // The configuration of every connection is the same: it cannot be wrong for one.
			log.FromContext(c.ctx).Error(err, "Cannot watch EndpointSlices", "cluster", cluster)
			continue
		}
		p.watches[s] = w
	}
}

// noticed queues a slice that changed.
func (c *collector) noticed(cluster string) func(types.NamespacedName) {
	return func(slice types.NamespacedName) {
		c.metrics.Seen(within(cluster, slice))
		c.queues.Add(cluster, slice)
	}
}

// within tells slices of several members apart.
func within(cluster string, slice types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster + "/" + slice.Namespace, Name: slice.Name}
}

// recheck queues the records of slices, once all that there are have been seen: some may have gone while nobody looked.
func (c *collector) recheck(cluster string) {
	works, err := endpointslices.ListWorks(c.ctx, c.client, client.InNamespace(workv1alpha1.ExecutionNamespace(cluster)))
	if err != nil {
		return // a cache that has synced fails for a missing index only
	}
	for _, w := range works {
		if mcswork.IsCollected(w) {
			c.queues.Add(cluster, endpointslices.SliceOf(w))
		}
	}
}

func (c *collector) look(cluster string, slice types.NamespacedName) endpointslices.Seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.providers[cluster]
	if p == nil || len(p.watches) == 0 {
		return endpointslices.Seen{}
	}
	s := endpointslices.Seen{Certain: true}
	for _, w := range p.watches {
		found, exists, certain := w.Get(slice)
		if exists {
			return endpointslices.Seen{Raw: found.Raw, Service: found.Service, Endpoints: found.Endpoints, Certain: true}
		}
		s.Certain = s.Certain && certain
	}
	return s
}

// reconcile is the member.Task of collect: it makes the record of one slice what the slice is.
func (c *collector) reconcile(ctx context.Context, cluster string, slice types.NamespacedName) (time.Duration, error) {
	seen := c.look(cluster, slice)
	if !seen.Certain {
		return 0, nil // when it is, the slice is queued again
	}
	again, err := c.record(ctx, cluster, slice, seen)
	c.metrics.Recorded(within(cluster, slice), err)
	return again, err
}

func (c *collector) record(ctx context.Context, cluster string, slice types.NamespacedName, seen endpointslices.Seen) (time.Duration, error) {
	space := workv1alpha1.ExecutionNamespace(cluster)
	existing, err := endpointslices.GetWork(ctx, c.client, types.NamespacedName{Namespace: space, Name: networkingv1alpha1.CollectedWorkName(slice.Namespace, slice.Name)})
	if err != nil {
		return 0, err
	}
	var owner *workv1alpha1.Work
	if seen.Raw != nil {
		if owner, err = endpointslices.GetWork(ctx, c.client, types.NamespacedName{Namespace: space, Name: mcswork.RegistrationName(seen.Service)}); err != nil {
			return 0, err
		}
	}
	if owner != nil && !mcswork.IsRegistration(owner) {
		return endpointslices.RetryDelay, nil // somebody changed it; it is put right
	}
	if owner == nil || owner.DeletionTimestamp != nil {
		c.metrics.Endpoints.Set(within(cluster, slice), 0)
		if existing == nil || !mcswork.IsCollected(existing) {
			return 0, nil
		}
		return 0, endpointslices.DeleteAll(ctx, c.client, []*workv1alpha1.Work{existing})
	}
	c.metrics.Endpoints.Set(within(cluster, slice), seen.Endpoints)
	desired := mcswork.Collected(cluster, mcswork.OwnerLabelsOn(owner), slice, seen.Raw, existing)
	switch _, err := endpointslices.WriteOwn(ctx, c.client, &c.own, existing, desired); {
	case errors.Is(err, endpointslices.ErrNoExecutionNamespace):
		return 0, nil // the cluster is going
	case errors.Is(err, endpointslices.ErrChangedMeanwhile):
		return endpointslices.RetryDelay, nil
	default:
		return 0, err
	}
}
