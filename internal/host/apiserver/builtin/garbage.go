package builtin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/replicasets"
)

const (
	collectorWorkers = 10
	// collectorPeriod is how often the collector looks for new kinds. It is cheap: discovery is
	// read only around changes of what is served.
	collectorPeriod = time.Second
	// collectorSync bounds how long the first lists of all objects delay the rest.
	collectorSync = 30 * time.Second
	// discoveryDelay is how long after such a change discovery may still be incomplete.
	discoveryDelay = 10 * time.Second
)

func (b *builder) garbage(ctx context.Context) error {
	const name = "garbage-collector"
	client, objects, err := b.clients(name)
	if err != nil {
		return err
	}
	served, err := watchServed(everything{client.Discovery()}, objects, func(lists []*metav1.APIResourceList) []*metav1.APIResourceList {
		return inStoredVersion(only(ctx, lists, b.cfg.InUse), b.cfg.StoredVersion)
	})
	if err != nil {
		return fmt.Errorf("making %s: %w", name, err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	started := make(chan struct{})
	collector, err := garbagecollector.NewGarbageCollector(ctx, client, objects, mapper,
		garbagecollector.DefaultIgnoredResources(), newLeanInformers(b.cfg, objects), started)
	if err != nil {
		return fmt.Errorf("making %s: %w", name, err)
	}
	b.cfg.OnUse(served.filterAgain)
	b.add(name, func(ctx context.Context) {
		served.start(ctx)
		close(started)
		var running sync.WaitGroup
		running.Go(func() { collector.Run(ctx, collectorWorkers, collectorSync) })
		running.Go(func() { collector.Sync(ctx, served, collectorPeriod) })
		running.Wait()
		served.informers.Shutdown()
	})
	return nil
}

// leanInformers gives the collector what it reads of an object and no more. Upstream's own choice keeps
// whole objects of every built-in kind.
type leanInformers struct {
	shared informers.SharedInformerFactory
	start  func()
	native func(schema.GroupResource) cache.SharedIndexInformer
	client metadata.Interface
	// watched are the resources the API server watches in full for its own sake.
	watched sets.Set[schema.GroupResource]
}

func newLeanInformers(cfg Config, client metadata.Interface) *leanInformers {
	return &leanInformers{
		shared: cfg.Informers,
		start:  cfg.StartInformers,
		native: cfg.NativeInformer,
		client: client,
		watched: sets.New(
			schema.GroupResource{Resource: "namespaces"}, schema.GroupResource{Resource: "secrets"},
			schema.GroupResource{Resource: "serviceaccounts"},
			schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
			schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"},
			schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "roles"},
			schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"},
		),
	}
}

// ForResource returns the informer of a resource: a new one with each call, unless the API server has one.
func (l *leanInformers) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if l.watched.Has(resource.GroupResource()) {
		return l.shared.ForResource(resource)
	}
	// Over HTTP, each write of a Work or a binding, of which most writes are, is encoded and decoded once more.
	if own := l.native(resource.GroupResource()); own != nil {
		return monitored(own, ownershipOf, resource)
	}
	var tweak metadatainformer.TweakListOptionsFunc
	if resource.GroupResource() == (schema.GroupResource{Group: "apps", Resource: "replicasets"}) {
		tweak = replicasets.WithoutDerived // they go with their Deployments
	}
	informer := metadatainformer.NewFilteredMetadataInformer(l.client, resource, metav1.NamespaceAll, 0, cache.Indexers{}, tweak).Informer()
	if resource.GroupVersion() == resourcev1alpha2.GroupVersion {
		informer = &delayedInformer{SharedIndexInformer: informer}
	}
	return monitored(informer, onlyOwnership, resource)
}

func monitored(informer cache.SharedIndexInformer, transform cache.TransformFunc, resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if err := informer.SetTransform(transform); err != nil {
		return nil, fmt.Errorf("preparing to watch %s: %w", resource, err)
	}
	return monitoredInformer{informer, resource.GroupResource()}, nil
}

// Start runs the informers that are shared, which end with the server. The others run with the collector's monitor of their kind.
func (l *leanInformers) Start(<-chan struct{}) { l.start() }

// monitoredInformer is an informer that ends with the garbage collector's monitor of its kind. Informers of a factory run until the
// process ends, and list a kind that is gone again and again.
type monitoredInformer struct {
	cache.SharedIndexInformer
	resource schema.GroupResource
}

// Lister implements informers.GenericInformer.
func (m monitoredInformer) Lister() cache.GenericLister {
	return cache.NewGenericLister(m.GetIndexer(), m.resource)
}

// Informer implements informers.GenericInformer.
func (m monitoredInformer) Informer() cache.SharedIndexInformer { return m }

// GetController returns what a monitor runs: upstream's does nothing when it is run.
func (m monitoredInformer) GetController() cache.Controller { return m }

// onlyOwnership drops from an object's metadata what does not bear on who owns it.
func onlyOwnership(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
		accessor.SetAnnotations(nil)
		accessor.SetLabels(nil)
	}
	return object, nil
}

// ownershipOf is the metadata of an object that bears on who owns it. The object is not changed, and only the little of its memory that the
// metadata refers to is kept.
func ownershipOf(object any) (any, error) {
	of, ok := object.(metav1.Object)
	if !ok {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: of.GetNamespace(), Name: of.GetName(), UID: of.GetUID(), ResourceVersion: of.GetResourceVersion(),
		DeletionTimestamp: of.GetDeletionTimestamp(), DeletionGracePeriodSeconds: of.GetDeletionGracePeriodSeconds(),
		Finalizers: of.GetFinalizers(), OwnerReferences: of.GetOwnerReferences(),
	}}, nil
}

// served answers discovery from memory while nothing changes in what is served and in use.
type served struct {
	discovery.DiscoveryInterface
	informers metadatainformer.SharedInformerFactory
	// inUse leaves in the lists what is in use.
	inUse func([]*metav1.APIResourceList) []*metav1.APIResourceList

	mu      sync.Mutex
	changed time.Time
	last    []*metav1.APIResourceList
	// filtered is what is in use of last; nil when it has to be filtered again.
	filtered []*metav1.APIResourceList
	// generation counts the changes of what is in use.
	generation int
}

// watchServed watches what decides about the kinds that are served: definitions and API services.
func watchServed(client discovery.DiscoveryInterface, objects metadata.Interface, inUse func([]*metav1.APIResourceList) []*metav1.APIResourceList) (*served, error) {
	s := &served{
		DiscoveryInterface: client, inUse: inUse,
		informers: metadatainformer.NewSharedInformerFactoryWithOptions(objects, 0, metadatainformer.WithTransform(onlyOwnership)),
	}
	onChange := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.invalidate() },
		UpdateFunc: func(any, any) { s.invalidate() },
		DeleteFunc: func(any) { s.invalidate() },
	}
	for _, resource := range []schema.GroupVersionResource{
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
	} {
		if _, err := s.informers.ForResource(resource).Informer().AddEventHandler(onChange); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *served) start(ctx context.Context) { s.informers.Start(ctx.Done()) }

func (s *served) invalidate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = time.Now()
}

// filterAgain drops the filtered lists, since what is in use has changed.
func (s *served) filterAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filtered = nil
	s.generation++
}

// ServerPreferredResources lists the preferred version of every resource that is in use.
func (s *served) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	s.mu.Lock()
	last, fresh := s.last, time.Since(s.changed) > discoveryDelay
	filtered, generation := s.filtered, s.generation
	s.mu.Unlock()
	if fresh && last != nil {
		if filtered == nil {
			filtered = s.inUse(last)
			s.keep(last, filtered, generation)
		}
		return filtered, nil
	}
	lists, err := s.DiscoveryInterface.ServerPreferredResources()
	filtered = s.inUse(lists)
	if err != nil {
		s.keep(nil, nil, generation)
		return filtered, err
	}
	s.keep(lists, filtered, generation)
	return filtered, nil
}

// keep caches an answer. Lists that were filtered for an earlier generation are not kept.
func (s *served) keep(lists, filtered []*metav1.APIResourceList, generation int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.filtered = lists, nil
	if generation == s.generation {
		s.filtered = filtered
	}
}
