package mcswork

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
)

// OnService calls add for a MultiClusterService that was created, changed in its spec or labels, or is going.
func OnService(add func(context.Context, types.NamespacedName, endpointslices.Queue)) handler.TypedEventHandler[*networkingv1alpha1.MultiClusterService, reconcile.Request] {
	type mcs = *networkingv1alpha1.MultiClusterService
	return handler.TypedFuncs[mcs, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e ctrlevent.TypedCreateEvent[mcs], q endpointslices.Queue) {
			add(ctx, client.ObjectKeyFromObject(e.Object), q)
		},
		UpdateFunc: func(ctx context.Context, e ctrlevent.TypedUpdateEvent[mcs], q endpointslices.Queue) {
			if e.ObjectOld.Generation != e.ObjectNew.Generation || e.ObjectOld.UID != e.ObjectNew.UID ||
				(e.ObjectOld.DeletionTimestamp == nil) != (e.ObjectNew.DeletionTimestamp == nil) ||
				!maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels) {
				add(ctx, client.ObjectKeyFromObject(e.ObjectNew), q)
			}
		},
		DeleteFunc: func(ctx context.Context, e ctrlevent.TypedDeleteEvent[mcs], q endpointslices.Queue) {
			add(ctx, client.ObjectKeyFromObject(e.Object), q)
		},
	}
}

func Owners(ctx context.Context, reader client.Reader) []types.NamespacedName {
	var list networkingv1alpha1.MultiClusterServiceList
	if err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // a cache that has synced does not fail
		log.FromContext(ctx).Error(err, "Listing MultiClusterServices")
	}
	keys := make([]types.NamespacedName, 0, len(list.Items))
	for i := range list.Items {
		keys = append(keys, client.ObjectKeyFromObject(&list.Items[i]))
	}
	return keys
}

// Registration is the record that makes a cluster a provider: the MultiClusterService itself, beside the cluster's Works.
// Whoever is connected to the cluster collects what it finds there.
func Registration(mcs *networkingv1alpha1.MultiClusterService, provider string, existing *workv1alpha1.Work, selectorless bool) (*workv1alpha1.Work, error) {
	copied := &networkingv1alpha1.MultiClusterService{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1alpha1.GroupVersion.String(), Kind: networkingv1alpha1.KindMultiClusterService},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: mcs.Namespace, Name: mcs.Name,
			Labels: map[string]string{networkingv1alpha1.MultiClusterServicePermanentIDLabel: mcs.Labels[networkingv1alpha1.MultiClusterServicePermanentIDLabel]},
		},
		Spec: mcs.Spec,
	}
	raw, err := json.Marshal(copied)
	if err != nil {
		return nil, fmt.Errorf("encoding MultiClusterService %s/%s: %w", mcs.Namespace, mcs.Name, err)
	}
	work := endpointslices.WorkFor(existing, workv1alpha1.ExecutionNamespace(provider), RegistrationName(client.ObjectKeyFromObject(mcs)))
	work.Labels = labels.Merge(work.Labels, OwnerLabels(mcs))
	delete(work.Annotations, networkingv1alpha1.SelectorlessServiceAnnotation)
	if selectorless {
		work.Annotations = labels.Merge(work.Annotations, map[string]string{networkingv1alpha1.SelectorlessServiceAnnotation: "true"})
	}
	endpointslices.SetManifest(work, raw, true)
	return work, nil
}

func RegistrationName(service types.NamespacedName) string {
	return workv1alpha1.WorkName(networkingv1alpha1.KindMultiClusterService, service.Namespace, service.Name)
}

// IsRegistration tells the two kinds of records apart.
func IsRegistration(work metav1.Object) bool {
	_, slice := work.GetLabels()[networkingv1alpha1.EndpointSliceWorkNamespaceLabel]
	return networkingv1alpha1.IsRecord(work) && !slice
}

func IsCollected(work metav1.Object) bool {
	return networkingv1alpha1.IsRecord(work) && !IsRegistration(work)
}

// IsDispatched says that a Work carries a slice to a consumer.
func IsDispatched(work metav1.Object) bool {
	_, service := work.GetLabels()[networkingv1alpha1.MultiClusterServiceNameLabel]
	return service && work.GetAnnotations()[networkingv1alpha1.EndpointSliceProvisionClusterAnnotation] != ""
}

// Collected is the record of a provider's slice. owner has the labels of the registration.
func Collected(provider string, owner map[string]string, slice types.NamespacedName, raw []byte, existing *workv1alpha1.Work) *workv1alpha1.Work {
	work := endpointslices.WorkFor(existing, workv1alpha1.ExecutionNamespace(provider), networkingv1alpha1.CollectedWorkName(slice.Namespace, slice.Name))
	endpointslices.SetSlice(work, owner, slice)
	endpointslices.SetManifest(work, raw, true)
	return work
}

// Dispatched carries a provider's slice to a consumer.
func Dispatched(provider, consumer string, owner map[string]string, slice types.NamespacedName, raw []byte, existing *workv1alpha1.Work) *workv1alpha1.Work {
	key := DispatchedKey(provider, consumer, slice)
	work := endpointslices.WorkFor(existing, key.Namespace, key.Name)
	endpointslices.SetSlice(work, owner, slice)
	work.Annotations = labels.Merge(work.Annotations, map[string]string{networkingv1alpha1.EndpointSliceProvisionClusterAnnotation: provider})
	if !slices.Contains(work.Finalizers, workv1alpha1.ExecutionFinalizer) {
		work.Finalizers = append(work.Finalizers, workv1alpha1.ExecutionFinalizer)
	}
	endpointslices.SetManifest(work, raw, false)
	return work
}

func DispatchedKey(provider, consumer string, slice types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{
		Namespace: workv1alpha1.ExecutionNamespace(consumer),
		Name:      networkingv1alpha1.DispatchedWorkName(provider, slice.Namespace, slice.Name),
	}
}

// SourceOf is the record that a dispatched Work was made from.
func SourceOf(work metav1.Object) types.NamespacedName {
	slice := endpointslices.SliceOf(work)
	return types.NamespacedName{
		Namespace: workv1alpha1.ExecutionNamespace(work.GetAnnotations()[networkingv1alpha1.EndpointSliceProvisionClusterAnnotation]),
		Name:      networkingv1alpha1.CollectedWorkName(slice.Namespace, slice.Name),
	}
}

// OwnerOf is the MultiClusterService that a Work of this room belongs to, and with it the Service; empty for others.
func OwnerOf(work metav1.Object) types.NamespacedName {
	return types.NamespacedName{
		Namespace: work.GetLabels()[networkingv1alpha1.MultiClusterServiceNamespaceLabel],
		Name:      work.GetLabels()[networkingv1alpha1.MultiClusterServiceNameLabel],
	}
}

func OwnerLabels(mcs *networkingv1alpha1.MultiClusterService) map[string]string {
	return map[string]string{
		networkingv1alpha1.MultiClusterServicePermanentIDLabel: mcs.Labels[networkingv1alpha1.MultiClusterServicePermanentIDLabel],
		networkingv1alpha1.MultiClusterServiceNamespaceLabel:   mcs.Namespace,
		networkingv1alpha1.MultiClusterServiceNameLabel:        mcs.Name,
	}
}

// OwnerLabelsOn are those labels as a record has them.
func OwnerLabelsOn(record metav1.Object) map[string]string {
	labels := map[string]string{}
	for _, key := range []string{
		networkingv1alpha1.MultiClusterServicePermanentIDLabel,
		networkingv1alpha1.MultiClusterServiceNamespaceLabel, networkingv1alpha1.MultiClusterServiceNameLabel,
	} {
		labels[key] = record.GetLabels()[key]
	}
	return labels
}

// Indexes in the cache.
const (
	// ownerIndex finds the Works of a MultiClusterService.
	ownerIndex = "service.owner"
	// sourceIndex finds the Works made from a record.
	SourceIndex = "service.source"
)

func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for name, extract := range map[string]client.IndexerFunc{
		ownerIndex: func(obj client.Object) []string {
			if owner := OwnerOf(obj); owner.Name != "" {
				return []string{owner.String()}
			}
			return nil
		},
		SourceIndex: func(obj client.Object) []string {
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

// ListOf lists everything this room made for a MultiClusterService. The Works are shared with the cache.
func ListOf(ctx context.Context, reader client.Reader, owner types.NamespacedName) ([]*workv1alpha1.Work, error) {
	return endpointslices.ListWorks(ctx, reader, client.MatchingFields{ownerIndex: owner.String()})
}
