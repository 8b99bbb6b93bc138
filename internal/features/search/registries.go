package search

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	searchv1alpha1 "github.com/flagship-k8s/flagship/api/search/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/affinity"
)

// Registries are the ResourceRegistries of the control plane. Make one with Setup.
type Registries struct {
	reader client.Reader

	mu      sync.Mutex
	changed chan struct{}
}

// Setup makes Registries that read from the cache of mgr. They are for every replica: each serves the search API.
func Setup(ctx context.Context, mgr ctrl.Manager) (*Registries, error) {
	r := &Registries{reader: mgr.GetClient(), changed: make(chan struct{})}
	for _, kind := range []client.Object{&searchv1alpha1.ResourceRegistry{}, &clusterv1alpha1.Cluster{}} {
		informer, err := mgr.GetCache().GetInformer(ctx, kind)
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", kind, err)
		}
		notify := func(any) { r.notify() }
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: notify, UpdateFunc: func(any, any) { r.notify() }, DeleteFunc: notify,
		}); err != nil {
			return nil, fmt.Errorf("following %T: %w", kind, err)
		}
	}
	return r, nil
}

func (r *Registries) notify() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
}

// Changed returns a channel that is closed when Clusters may return something else than it returns after this call.
func (r *Registries) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// Clusters returns the clusters in which registries select a resource that the cluster serves in this version, each with its
// namespaces, sorted; nil namespaces are all. The caller must not change them.
func (r *Registries) Clusters(ctx context.Context, resource schema.GroupVersionResource) (map[string][]string, error) {
	var registries searchv1alpha1.ResourceRegistryList
	if err := r.reader.List(ctx, &registries, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ResourceRegistries: %w", err)
	}
	if len(registries.Items) == 0 {
		return nil, nil
	}
	var clusters clusterv1alpha1.ClusterList
	if err := r.reader.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Clusters: %w", err)
	}
	return selected(registries.Items, clusters.Items, resource), nil
}

// Kind returns the kind of a resource that a cluster serves in this version, whether a registry selects it or not; "" if none serves it.
func (r *Registries) Kind(ctx context.Context, resource schema.GroupVersionResource) (string, error) {
	var clusters clusterv1alpha1.ClusterList
	if err := r.reader.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing Clusters: %w", err)
	}
	for i := range clusters.Items {
		if kind := kindIn(&clusters.Items[i], resource); kind != "" {
			return kind, nil
		}
	}
	return "", nil
}

// Ready returns whether a cluster is recorded as ready. One that cannot be read is not.
func (r *Registries) Ready(ctx context.Context, name string) bool {
	var cluster clusterv1alpha1.Cluster
	err := r.reader.Get(ctx, client.ObjectKey{Name: name}, &cluster)
	return err == nil && meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
}

// selected is the union of what registries select. A Cluster or registry that is being deleted does not count, nor does a registry
// whose affinity cannot be read, which was written before its validation.
func selected(registries []searchv1alpha1.ResourceRegistry, clusters []clusterv1alpha1.Cluster, resource schema.GroupVersionResource) map[string][]string {
	found := map[string][]string{}
	for i := range clusters {
		cluster := &clusters[i]
		kind := kindIn(cluster, resource)
		if kind == "" || cluster.DeletionTimestamp != nil {
			continue
		}
		identity := affinity.Of(cluster)
		for j := range registries {
			registry := &registries[j]
			namespaces, selects := namespacesOf(registry.Spec.ResourceSelectors, resource.GroupVersion().String(), kind)
			if !selects || registry.DeletionTimestamp != nil {
				continue
			}
			selector, err := affinity.Compile("spec.targetCluster", &registry.Spec.TargetCluster)
			if err != nil || selector.Mismatch(&identity) != affinity.None {
				continue
			}
			before, known := found[cluster.Name]
			if namespaces == nil || known && before == nil {
				found[cluster.Name] = nil
				continue
			}
			all := slices.Concat(before, namespaces)
			slices.Sort(all)
			found[cluster.Name] = slices.Compact(all)
		}
	}
	return found
}

// kindIn is the kind of a resource that a cluster serves, "" for none.
func kindIn(cluster *clusterv1alpha1.Cluster, resource schema.GroupVersionResource) string {
	version := resource.GroupVersion().String()
	for i := range cluster.Status.APIEnablements {
		if cluster.Status.APIEnablements[i].GroupVersion != version {
			continue
		}
		for _, r := range cluster.Status.APIEnablements[i].Resources {
			if r.Name == resource.Resource {
				return r.Kind
			}
		}
	}
	return ""
}

// namespacesOf returns in which namespaces selectors have a kind; nil for all.
func namespacesOf(selectors []searchv1alpha1.ResourceSelector, version, kind string) (namespaces []string, selects bool) {
	for _, s := range selectors {
		switch {
		case s.APIVersion != version || s.Kind != kind:
		case s.Namespace == "":
			return nil, true
		default:
			namespaces, selects = append(namespaces, s.Namespace), true
		}
	}
	return namespaces, selects
}
