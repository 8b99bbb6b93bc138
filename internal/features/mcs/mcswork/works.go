package mcswork

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
)

// Registration is the record that makes a cluster a provider: the MultiClusterService itself, beside the other Works of the cluster.
// Collecting, which runs where the connection to the cluster is, reads from it what to collect.
func Registration(mcs *networkingv1alpha1.MultiClusterService, provider string, existing *workv1alpha1.Work, selectorless bool) (*workv1alpha1.Work, error) {
	raw, err := json.Marshal(&networkingv1alpha1.MultiClusterService{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1alpha1.GroupVersion.String(), Kind: networkingv1alpha1.KindMultiClusterService},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: mcs.Namespace, Name: mcs.Name,
			Labels: map[string]string{networkingv1alpha1.MultiClusterServicePermanentIDLabel: mcs.Labels[networkingv1alpha1.MultiClusterServicePermanentIDLabel]},
		},
		Spec: mcs.Spec,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding MultiClusterService %s/%s: %w", mcs.Namespace, mcs.Name, err)
	}
	work := workv1alpha1.NewRecord(RegistrationKey(provider, client.ObjectKeyFromObject(mcs)), existing)
	work.AddLabels(OwnerLabels(mcs))
	delete(work.Annotations, networkingv1alpha1.SelectorlessServiceAnnotation)
	if selectorless {
		work.AddAnnotations(map[string]string{networkingv1alpha1.SelectorlessServiceAnnotation: "true"})
	}
	endpointslices.SetManifest(work, raw, true)
	return work, nil
}

// RegistrationKey is the key of the registration of a Service with a provider.
func RegistrationKey(provider string, service types.NamespacedName) types.NamespacedName {
	return endpointslices.WorkKey(provider, workv1alpha1.WorkName(networkingv1alpha1.KindMultiClusterService, service.Namespace, service.Name))
}

// IsRegistration returns whether a Work is a registration.
func IsRegistration(work metav1.Object) bool {
	_, slice := work.GetLabels()[networkingv1alpha1.EndpointSliceWorkNamespaceLabel]
	return networkingv1alpha1.IsRecord(work) && !slice
}

// IsCollected returns whether a Work is the record of a slice.
func IsCollected(work metav1.Object) bool {
	return networkingv1alpha1.IsRecord(work) && !IsRegistration(work)
}

// IsDispatched returns whether a Work carries a slice to a consumer.
func IsDispatched(work metav1.Object) bool {
	_, service := work.GetLabels()[networkingv1alpha1.MultiClusterServiceNameLabel]
	return service && work.GetAnnotations()[networkingv1alpha1.EndpointSliceProvisionClusterAnnotation] != ""
}

// Collected is the record of a provider's slice. The labels of its owner are those of the registration.
func Collected(provider string, owner map[string]string, slice types.NamespacedName, raw []byte, existing *workv1alpha1.Work) *workv1alpha1.Work {
	work := workv1alpha1.NewRecord(CollectedKey(provider, slice), existing)
	endpointslices.SetSlice(work, networkingv1alpha1.KindMultiClusterService, owner, slice)
	endpointslices.SetManifest(work, raw, true)
	return work
}

// CollectedKey is the key of the record of a provider's slice.
func CollectedKey(provider string, slice types.NamespacedName) types.NamespacedName {
	return endpointslices.WorkKey(provider, networkingv1alpha1.CollectedWorkName(slice.Namespace, slice.Name))
}

// Dispatched carries a provider's slice to a consumer.
func Dispatched(provider, consumer string, owner map[string]string, slice types.NamespacedName, raw []byte, existing *workv1alpha1.Work) *workv1alpha1.Work {
	work := workv1alpha1.NewWork(DispatchedKey(provider, consumer, slice), existing)
	endpointslices.SetSlice(work, networkingv1alpha1.KindMultiClusterService, owner, slice)
	work.AddAnnotations(map[string]string{networkingv1alpha1.EndpointSliceProvisionClusterAnnotation: provider})
	endpointslices.SetManifest(work, raw, false)
	return work
}

// DispatchedKey is the key of the Work that carries a provider's slice to a consumer.
func DispatchedKey(provider, consumer string, slice types.NamespacedName) types.NamespacedName {
	return endpointslices.WorkKey(consumer, networkingv1alpha1.DispatchedWorkName(provider, slice.Namespace, slice.Name))
}

// SourceOf returns the record that a dispatched Work was made from.
func SourceOf(work metav1.Object) types.NamespacedName {
	return CollectedKey(work.GetAnnotations()[networkingv1alpha1.EndpointSliceProvisionClusterAnnotation], endpointslices.SliceOf(work))
}

// OwnerOf returns the MultiClusterService that a Work belongs to, which is also the key of the Service; empty for other Works.
func OwnerOf(work metav1.Object) types.NamespacedName {
	return types.NamespacedName{
		Namespace: work.GetLabels()[networkingv1alpha1.MultiClusterServiceNamespaceLabel],
		Name:      work.GetLabels()[networkingv1alpha1.MultiClusterServiceNameLabel],
	}
}

// OwnerLabels name the MultiClusterService that a Work belongs to.
func OwnerLabels(mcs *networkingv1alpha1.MultiClusterService) map[string]string {
	return map[string]string{
		networkingv1alpha1.MultiClusterServicePermanentIDLabel: mcs.Labels[networkingv1alpha1.MultiClusterServicePermanentIDLabel],
		networkingv1alpha1.MultiClusterServiceNamespaceLabel:   mcs.Namespace,
		networkingv1alpha1.MultiClusterServiceNameLabel:        mcs.Name,
	}
}

// OwnerLabelsOn are the labels of OwnerLabels as a record has them.
func OwnerLabelsOn(record metav1.Object) map[string]string {
	labels := map[string]string{}
	for key := range OwnerLabels(&networkingv1alpha1.MultiClusterService{}) {
		labels[key] = record.GetLabels()[key]
	}
	return labels
}

const (
	ownerIndex  = "service.owner"
	sourceIndex = "service.source"
)

// AddIndexes adds the indexes of ListOf and ListFrom to a cache.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for name, extract := range map[string]client.IndexerFunc{
		ownerIndex: func(obj client.Object) []string {
			if owner := OwnerOf(obj); owner.Name != "" {
				return []string{owner.String()}
			}
			return nil
		},
		sourceIndex: func(obj client.Object) []string {
			if IsDispatched(obj) {
				return []string{SourceOf(obj).String()}
			}
			return nil
		},
	} {
		if err := indexer.IndexField(ctx, &workv1alpha1.Work{}, name, extract); err != nil {
			return fmt.Errorf("adding the index %s: %w", name, err)
		}
	}
	return nil
}

// ListOf lists all Works of a MultiClusterService, which are shared with the cache.
func ListOf(ctx context.Context, reader client.Reader, owner types.NamespacedName) ([]*workv1alpha1.Work, error) {
	return hubclient.ListWorks(ctx, reader, client.MatchingFields{ownerIndex: owner.String()})
}

// ListFrom lists the Works that were made from a record, which are shared with the cache.
func ListFrom(ctx context.Context, reader client.Reader, record types.NamespacedName) ([]*workv1alpha1.Work, error) {
	return hubclient.ListWorks(ctx, reader, client.MatchingFields{sourceIndex: record.String()})
}

// ListOwners lists the keys of all MultiClusterServices.
func ListOwners(ctx context.Context, reader client.Reader) ([]types.NamespacedName, error) {
	var list networkingv1alpha1.MultiClusterServiceList
	if err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing MultiClusterServices: %w", err)
	}
	keys := make([]types.NamespacedName, len(list.Items))
	for i := range list.Items {
		keys[i] = client.ObjectKeyFromObject(&list.Items[i])
	}
	return keys, nil
}
