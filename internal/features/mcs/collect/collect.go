package collect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberqueue"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/features/mcs/metrics"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
)

// Deps is what collecting needs besides the manager's cache.
type Deps struct {
	// Client is that of package hubclient. Required.
	Client client.Client
	// Fleet has the connections to the providers. Required.
	Fleet *member.Fleet
	// Metrics registers the metrics. Nil registers none.
	Metrics prometheus.Registerer
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Workers is how many slices of one provider are written at a time. Default 4.
	Workers int
}

// collector keeps a record of every slice of the Services that members are registered to provide.
type collector struct {
	client  client.Client
	cache   cache.Cache
	fleet   *member.Fleet
	queues  *memberqueue.Queues
	own     endpointslices.OwnWrites
	metrics *metrics.Collect
	watches *memberwatch.Group // since Start

	mu sync.Mutex
	// started is true once all registrations are known: before, a slice may seem to be missing that only is not watched yet.
	started   bool
	providers map[string]*provider
}

// provider is what is collected in one member.
type provider struct {
	conn *member.Conn
	// services are those the member is registered for; true if a Service has no selector.
	services map[types.NamespacedName]bool
	watches  map[endpointslices.Scope]*memberwatch.Watch[endpointslices.Slice]
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
	if err := mgr.Add(newCollector(mgr.GetCache(), deps)); err != nil {
		return fmt.Errorf("adding the collection of endpoints: %w", err)
	}
	return nil
}

func newCollector(works cache.Cache, deps Deps) *collector {
	c := &collector{client: deps.Client, cache: works, fleet: deps.Fleet, providers: map[string]*provider{}}
	c.queues = memberqueue.New("collect", deps.Fleet, deps.Clock, deps.Workers, c.reconcile)
	c.metrics = metrics.NewCollect(deps.Metrics, deps.Clock)
	return c
}

// Start implements manager.Runnable: it collects until ctx is done.
func (c *collector) Start(ctx context.Context) error {
	c.watches = memberwatch.NewGroup(ctx)
	defer c.watches.Close()
	synced, stop, err := hubclient.Follow(ctx, c.cache, func(before, after *workv1alpha1.Work, initial bool) {
		if after == nil {
			c.workDeleted(before)
		} else {
			c.workChanged(before, after, initial)
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	if !toolscache.WaitForCacheSync(ctx.Done(), synced) {
		return nil
	}
	c.fleet.Subscribe(func(cluster string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sync(cluster)
	})
	c.mu.Lock()
	c.started = true
	for cluster := range c.providers {
		c.sync(cluster)
	}
	c.mu.Unlock()
	return c.queues.Start(ctx)
}

// workChanged follows registrations, and enqueues the slices of records that others changed. Those of the initial list are enqueued
// when the slices of their provider are known.
func (c *collector) workChanged(before, work *workv1alpha1.Work, initial bool) {
	if mcswork.IsRegistration(work) {
		if work.DeletionTimestamp != nil {
			c.workDeleted(work)
		} else if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace); ok {
			c.startCollecting(cluster, mcswork.OwnerOf(work), work.Annotations[networkingv1alpha1.SelectorlessServiceAnnotation] == "true")
		}
	}
	if initial || before != nil && !endpointslices.Changed(before, work) || c.own.Observe(work) {
		return
	}
	for _, w := range []*workv1alpha1.Work{before, work} { // The labels that say what it is may have changed.
		if w == nil || !mcswork.IsCollected(w) {
			continue
		}
		if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(w.Namespace); ok {
			c.queues.Add(cluster, endpointslices.SliceOf(w))
		}
	}
}

func (c *collector) workDeleted(work *workv1alpha1.Work) {
	if !networkingv1alpha1.IsRecord(work) {
		return
	}
	c.own.Forget(client.ObjectKeyFromObject(work))
	cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	switch {
	case !ok:
	case mcswork.IsRegistration(work):
		c.stopCollecting(cluster, mcswork.OwnerOf(work))
	default:
		c.queues.Add(cluster, endpointslices.SliceOf(work)) // Its slice may still be there.
	}
}

// startCollecting collects the slices of a Service in a member.
func (c *collector) startCollecting(cluster string, service types.NamespacedName, selectorless bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.providers[cluster]
	if p == nil {
		p = &provider{services: map[types.NamespacedName]bool{}, watches: map[endpointslices.Scope]*memberwatch.Watch[endpointslices.Slice]{}}
		c.providers[cluster] = p
	}
	known, there := p.services[service]
	if there && known == selectorless {
		return
	}
	p.services[service] = selectorless
	c.sync(cluster)
	if there { // The watch that ended may have had slices that no other has.
		c.queues.Add(cluster, allRecords)
	}
	for _, w := range p.watches { // Slices that were known before the Service was registered.
		for _, slice := range w.Keys(endpointslices.Of(service)) {
			c.queues.Add(cluster, slice)
		}
	}
}

func (c *collector) stopCollecting(cluster string, service types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.providers[cluster]
	if p == nil {
		return
	}
	delete(p.services, service)
	c.sync(cluster)
	if len(p.services) == 0 {
		delete(c.providers, cluster)
	}
}

// sync makes the watches in a member what its Services and its connection need. The lock is held.
func (c *collector) sync(cluster string) {
	p := c.providers[cluster]
	if p == nil || !c.started {
		return
	}
	conn, connected := c.fleet.Get(cluster)
	wanted := map[endpointslices.Scope]bool{}
	if connected {
		for service, selectorless := range p.services {
			wanted[endpointslices.ScopeOf(service, selectorless)] = true
		}
	}
	for s, w := range p.watches {
		if !wanted[s] || conn != p.conn {
			w.Stop()
			delete(p.watches, s)
		}
	}
	p.conn = conn
	for s := range wanted {
		if p.watches[s] != nil {
			continue
		}
		changed := func(slice types.NamespacedName) {
			c.metrics.Seen(within(cluster, slice))
			c.queues.Add(cluster, slice)
		}
		store := endpointslices.NewSlices(endpointslices.Collected, changed, func() { c.queues.Add(cluster, allRecords) })
		p.watches[s] = endpointslices.StartSlices(c.watches, conn, s, store)
	}
}

// within identifies a slice among those of several members.
func within(cluster string, slice types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster + "/" + slice.Namespace, Name: slice.Name}
}

// allRecords is the key to enqueue the slices of all records of a member: some may be gone since they were watched.
var allRecords types.NamespacedName

func (c *collector) enqueueRecords(ctx context.Context, cluster string) error {
	works, err := hubclient.ListWorks(ctx, c.client, client.InNamespace(workv1alpha1.ExecutionNamespace(cluster)))
	for _, w := range works {
		if mcswork.IsCollected(w) {
			c.queues.Add(cluster, endpointslices.SliceOf(w))
		}
	}
	return err
}

// read returns a slice of a member; certain is false while not everything is known that could have it.
func (c *collector) read(cluster string, key types.NamespacedName) (slice endpointslices.Slice, certain bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.providers[cluster]
	if p == nil || len(p.watches) == 0 {
		return slice, false
	}
	certain = true
	for _, w := range p.watches {
		found, exists, synced := w.Get(key)
		if exists {
			return found, true
		}
		certain = certain && synced
	}
	return slice, certain
}

// reconcile is the memberqueue.ReconcileFunc: it makes the record of one slice what the slice is.
func (c *collector) reconcile(ctx context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
	if key == allRecords {
		return 0, c.enqueueRecords(ctx, cluster)
	}
	slice, certain := c.read(cluster, key)
	if !certain {
		return 0, nil // The slice is enqueued again when it is certain.
	}
	again, err := c.record(ctx, cluster, key, slice)
	c.note(cluster, key, err)
	c.metrics.Recorded(within(cluster, key), err)
	return again, err
}

// note has the condition of the Cluster say that the control plane refuses a record because there are too many of the member.
func (c *collector) note(cluster string, key types.NamespacedName, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.providers[cluster]; p != nil && p.conn != nil {
		p.conn.Accounts().NoteObject("records of MultiClusterServices", key.String(), err)
	}
}

func (c *collector) record(ctx context.Context, cluster string, key types.NamespacedName, slice endpointslices.Slice) (time.Duration, error) {
	existing, err := hubclient.GetWork(ctx, c.client, mcswork.CollectedKey(cluster, key))
	if err != nil {
		return 0, err
	}
	var owner *workv1alpha1.Work
	if slice.Raw != nil {
		if owner, err = hubclient.GetWork(ctx, c.client, mcswork.RegistrationKey(cluster, slice.Service)); err != nil {
			return 0, err
		}
	}
	if owner != nil && !mcswork.IsRegistration(owner) {
		return backoff.NotYet, nil // Others changed its labels; the control plane repairs them.
	}
	if owner == nil || owner.DeletionTimestamp != nil {
		c.metrics.Endpoints.Set(within(cluster, key), 0)
		if existing == nil || !mcswork.IsCollected(existing) {
			return 0, nil
		}
		return 0, hubclient.DeleteWorks(ctx, c.client, existing)
	}
	if existing == nil {
		if full, err := c.full(ctx, owner); err != nil || full {
			return time.Minute, err // Others may have gone then.
		}
	}
	c.metrics.Endpoints.Set(within(cluster, key), slice.Endpoints)
	desired := mcswork.Collected(cluster, mcswork.OwnerLabelsOn(owner), key, slice.Raw, existing)
	_, err = endpointslices.WriteOwn(ctx, c.client, &c.own, existing, desired)
	if errors.Is(err, endpointslices.ErrChangedMeanwhile) {
		return backoff.Conflict, nil
	}
	return 0, err
}

// full returns whether as many slices of a Service of a member are recorded as may be. An agent has no index of Works by their Service.
func (c *collector) full(ctx context.Context, registration *workv1alpha1.Work) (bool, error) {
	works, err := hubclient.ListWorks(ctx, c.client, client.InNamespace(registration.Namespace), client.MatchingLabels(mcswork.OwnerLabelsOn(registration)))
	records := 0
	for _, w := range works {
		if mcswork.IsCollected(w) {
			records++
		}
	}
	return records >= endpointslices.MaxSlices, err
}
