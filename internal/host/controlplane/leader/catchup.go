package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// decisive are the kinds from which the loops decide what members get.
func decisive() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		workv1alpha1.SchemeGroupVersion.WithKind("WorkList"),
		workv1alpha2.SchemeGroupVersion.WithKind("ResourceBindingList"),
		workv1alpha2.SchemeGroupVersion.WithKind("ClusterResourceBindingList"),
		clusterv1alpha1.SchemeGroupVersion.WithKind("ClusterList"),
		policyv1alpha1.SchemeGroupVersion.WithKind("PropagationPolicyList"),
		policyv1alpha1.SchemeGroupVersion.WithKind("ClusterPropagationPolicyList"),
		policyv1alpha1.SchemeGroupVersion.WithKind("OverridePolicyList"),
		policyv1alpha1.SchemeGroupVersion.WithKind("ClusterOverridePolicyList"),
	}
}

// CatchUp returns nil once the watch caches of this server have everything that was written before the call. Those of a server that was
// stopped, or that etcd could not be reached from, are old when it takes the lease, and its loops would render and schedule from what they
// have.
func CatchUp(ctx context.Context, live client.Reader) error {
	kinds := decisive()
	faults := make([]error, len(kinds))
	var all sync.WaitGroup
	for i, kind := range kinds {
		all.Go(func() { faults[i] = fresh(ctx, live, kind) })
	}
	all.Wait()
	return errors.Join(faults...)
}

// fresh returns nil once the watch cache of a kind is as new as storage was at the call. The first list is as new: its answer has the
// revision, and etcd reports its progress to the watch cache for it. But it is answered from etcd if that takes too long, so the second
// one requires the revision of the watch cache, and fails otherwise.
func fresh(ctx context.Context, live client.Reader, kind schema.GroupVersionKind) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	if err := live.List(ctx, list, client.Limit(1)); err != nil {
		return fmt.Errorf("reading the revision of %s: %w", kind.Kind, err)
	}
	raw := &metav1.ListOptions{ResourceVersion: list.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	if err := live.List(ctx, list, &client.ListOptions{Limit: 1, Raw: raw}); err != nil {
		return fmt.Errorf("waiting for revision %s of %s: %w", raw.ResourceVersion, kind.Kind, err)
	}
	return nil
}
