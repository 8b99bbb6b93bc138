package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// comparePeriod is the pause between two comparisons of a cache of the loops with the watch cache.
const comparePeriod = 20 * time.Millisecond

// Caches are what the loops of a server decide from. All fields are required.
type Caches struct {
	// Live reads through the API server of this process.
	Live client.Reader
	// Loops are the informers of the loops.
	Loops client.Reader
	// Local returns how the objects of a kind are listed from the watch cache without a request, nil for a kind that only Live reads.
	Local func(runtime.Object) toolscache.ListerWatcher
}

// kind is one from which the loops decide what members get.
type kind struct {
	gvk    schema.GroupVersionKind
	object client.Object
	list   func() client.ObjectList
}

// metadata is an empty list of the metadata of the kind.
func (k kind) metadata() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(k.gvk.GroupVersion().WithKind(k.gvk.Kind + "List"))
	return list
}

func decisive() []kind {
	return []kind{
		{workv1alpha1.SchemeGroupVersion.WithKind("Work"), &workv1alpha1.Work{}, func() client.ObjectList { return &workv1alpha1.WorkList{} }},
		{
			workv1alpha2.SchemeGroupVersion.WithKind("ResourceBinding"), &workv1alpha2.ResourceBinding{},
			func() client.ObjectList { return &workv1alpha2.ResourceBindingList{} },
		},
		{
			workv1alpha2.SchemeGroupVersion.WithKind("ClusterResourceBinding"), &workv1alpha2.ClusterResourceBinding{},
			func() client.ObjectList { return &workv1alpha2.ClusterResourceBindingList{} },
		},
		{clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"), &clusterv1alpha1.Cluster{}, func() client.ObjectList { return &clusterv1alpha1.ClusterList{} }},
		{
			policyv1alpha1.SchemeGroupVersion.WithKind("PropagationPolicy"), &policyv1alpha1.PropagationPolicy{},
			func() client.ObjectList { return &policyv1alpha1.PropagationPolicyList{} },
		},
		{
			policyv1alpha1.SchemeGroupVersion.WithKind("ClusterPropagationPolicy"), &policyv1alpha1.ClusterPropagationPolicy{},
			func() client.ObjectList { return &policyv1alpha1.ClusterPropagationPolicyList{} },
		},
		{
			policyv1alpha1.SchemeGroupVersion.WithKind("OverridePolicy"), &policyv1alpha1.OverridePolicy{},
			func() client.ObjectList { return &policyv1alpha1.OverridePolicyList{} },
		},
		{
			policyv1alpha1.SchemeGroupVersion.WithKind("ClusterOverridePolicy"), &policyv1alpha1.ClusterOverridePolicy{},
			func() client.ObjectList { return &policyv1alpha1.ClusterOverridePolicyList{} },
		},
	}
}

// CatchUp returns nil once the watch caches of this server, and the informers of its loops, have everything that was written before the
// call. Those of a server that was stopped, or that etcd could not be reached from, are old when it takes the lease, and its loops would
// render, schedule and apply from what they have. A watch cache that is as new as storage is not enough: if it was filled anew, the watches
// of the informers have ended, and informers read again only after a pause of about a second.
func CatchUp(ctx context.Context, caches Caches) error {
	kinds := decisive()
	faults := make([]error, len(kinds))
	var all sync.WaitGroup
	for i, kind := range kinds {
		all.Go(func() { faults[i] = caches.fresh(ctx, kind) })
	}
	all.Wait()
	return errors.Join(faults...)
}

// fresh returns nil once the caches of a kind are as new as storage was at the call. The answer of the first list has the revision, and
// etcd reports its progress to the watch cache for it. But it is read from etcd if that takes too long, so the second one requires the
// revision of the watch cache, and fails otherwise.
func (c Caches) fresh(ctx context.Context, k kind) error {
	first := k.metadata()
	if err := c.Live.List(ctx, first, client.Limit(1)); err != nil {
		return fmt.Errorf("reading the revision of %s: %w", k.gvk.Kind, err)
	}
	wanted, err := c.cached(ctx, k, first.ResourceVersion)
	if err != nil {
		return err
	}
	present, err := c.informed(ctx, k)
	if err != nil {
		return err
	}
	missing := lacks(wanted, present)
	complete := func(ctx context.Context) (bool, error) {
		if len(missing) == 0 {
			return true, nil
		}
		exist, err := c.cached(ctx, k, first.ResourceVersion)
		if err != nil {
			return false, err
		}
		present, err := c.informed(ctx, k)
		if err != nil {
			return false, err
		}
		maps.DeleteFunc(missing, func(name types.NamespacedName, version string) bool { return arrived(name, version, exist, present) })
		return len(missing) == 0, nil
	}
	if err := wait.PollUntilContextCancel(ctx, comparePeriod, true, complete); err != nil {
		return fmt.Errorf("%d of %d objects of %s are older in the informer than in storage: %w", len(missing), len(wanted), k.gvk.Kind, err)
	}
	return nil
}

// versions are the resource versions of the objects of a kind.
type versions map[types.NamespacedName]string

// lacks returns what an informer has not received: the versions of objects that are newer in the watch cache, and the objects that were
// deleted, with no version.
func lacks(wanted, present versions) versions {
	missing := versions{}
	for name, version := range wanted {
		if !reached(present[name], version) {
			missing[name] = version
		}
	}
	for name := range present {
		if _, exists := wanted[name]; !exists {
			missing[name] = ""
		}
	}
	return missing
}

// arrived returns whether an informer has received what it lacked of an object. An object that exists neither in the watch cache nor in the
// informer was deleted since. One that was deleted when the lists were compared, and exists again, counts when both have the same version.
func arrived(name types.NamespacedName, missing string, exist, present versions) bool {
	if _, known := present[name]; !known {
		_, exists := exist[name]
		return missing == "" || !exists
	}
	return reached(present[name], cmp.Or(missing, exist[name]))
}

// reached returns whether a resource version is at least as new as another one. No version is older than all, and is not reached.
func reached(present, wanted string) bool {
	if present == wanted {
		return present != ""
	}
	order, err := resourceversion.CompareResourceVersion(present, wanted)
	return err == nil && order >= 0
}

// cached lists a kind from the watch cache once that has a revision.
func (c Caches) cached(ctx context.Context, k kind, revision string) (versions, error) {
	options := metav1.ListOptions{ResourceVersion: revision, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	var list runtime.Object
	var err error
	if local := c.Local(k.object); local != nil {
		list, err = toolscache.ToListerWatcherWithContext(local).ListWithContext(ctx, options)
	} else {
		metadata := k.metadata()
		list, err = metadata, c.Live.List(ctx, metadata, &client.ListOptions{Raw: &options})
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for revision %s of %s: %w", revision, k.gvk.Kind, err)
	}
	return versionsOf(list)
}

// informed lists a kind from the informer of the loops.
func (c Caches) informed(ctx context.Context, k kind) (versions, error) {
	list := k.list()
	if err := c.Loops.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing %s from its informer: %w", k.gvk.Kind, err)
	}
	return versionsOf(list)
}

func versionsOf(list runtime.Object) (versions, error) {
	found := versions{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err == nil {
			found[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}] = object.GetResourceVersion()
		}
		return err
	})
	return found, err
}
