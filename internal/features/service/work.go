package service

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// sliceNameAnnotation has the name of a slice that is too long for the label.
const sliceNameAnnotation = networkingv1alpha1.EndpointSliceWorkNameLabel

// registration is the record that makes a cluster a provider: the MultiClusterService itself, beside the cluster's Works.
// Whoever is connected to the cluster collects what it finds there.
func registration(mcs *networkingv1alpha1.MultiClusterService, provider string, existing *workv1alpha1.Work, selectorless bool) (*workv1alpha1.Work, error) {
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
	work := begin(existing, workv1alpha1.ExecutionNamespace(provider), registrationName(client.ObjectKeyFromObject(mcs)))
	work.Labels = labels.Merge(work.Labels, ownerLabels(mcs))
	delete(work.Annotations, networkingv1alpha1.SelectorlessServiceAnnotation)
	if selectorless {
		work.Annotations = labels.Merge(work.Annotations, map[string]string{networkingv1alpha1.SelectorlessServiceAnnotation: "true"})
	}
	carry(work, raw, true)
	return work, nil
}

func registrationName(service types.NamespacedName) string {
	return workv1alpha1.WorkName(networkingv1alpha1.KindMultiClusterService, service.Namespace, service.Name)
}

// isRegistration tells the two kinds of records apart.
func isRegistration(work metav1.Object) bool {
	_, slice := work.GetLabels()[networkingv1alpha1.EndpointSliceWorkNamespaceLabel]
	return networkingv1alpha1.IsRecord(work) && !slice
}

func isCollected(work metav1.Object) bool {
	return networkingv1alpha1.IsRecord(work) && !isRegistration(work)
}

// isDispatched says that a Work carries a slice to a consumer.
func isDispatched(work metav1.Object) bool {
	_, service := work.GetLabels()[networkingv1alpha1.MultiClusterServiceNameLabel]
	return service && work.GetAnnotations()[networkingv1alpha1.EndpointSliceProvisionClusterAnnotation] != ""
}

// collectedWork is the record of a provider's slice. owner has the labels of the registration.
func collectedWork(provider string, owner map[string]string, slice types.NamespacedName, raw []byte, existing *workv1alpha1.Work) *workv1alpha1.Work {
	work := begin(existing, workv1alpha1.ExecutionNamespace(provider), networkingv1alpha1.CollectedWorkName(slice.Namespace, slice.Name))
	label(work, owner, slice)
	carry(work, raw, true)
	return work
}

// dispatchedWork carries a provider's slice to a consumer.
func dispatchedWork(provider, consumer string, owner map[string]string, slice types.NamespacedName, raw []byte, existing *workv1alpha1.Work) *workv1alpha1.Work {
	key := dispatchedKey(provider, consumer, slice)
	work := begin(existing, key.Namespace, key.Name)
	label(work, owner, slice)
	work.Annotations = labels.Merge(work.Annotations, map[string]string{networkingv1alpha1.EndpointSliceProvisionClusterAnnotation: provider})
	if !slices.Contains(work.Finalizers, workv1alpha1.ExecutionFinalizer) {
		work.Finalizers = append(work.Finalizers, workv1alpha1.ExecutionFinalizer)
	}
	carry(work, raw, false)
	return work
}

func dispatchedKey(provider, consumer string, slice types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{
		Namespace: workv1alpha1.ExecutionNamespace(consumer),
		Name:      networkingv1alpha1.DispatchedWorkName(provider, slice.Namespace, slice.Name),
	}
}

// begin is an existing Work to be changed, or a new one.
func begin(existing *workv1alpha1.Work, namespace, name string) *workv1alpha1.Work {
	if existing != nil {
		return existing.DeepCopy()
	}
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// carry makes raw the one manifest, unless the Work has it in other words. Records are suspended, others are not, whatever
// somebody else made of it.
func carry(work *workv1alpha1.Work, raw []byte, record bool) {
	work.Spec.PreserveResourcesOnDeletion = nil
	switch suspended := work.Spec.SuspendDispatching != nil && *work.Spec.SuspendDispatching; {
	case record && !suspended:
		work.Spec.SuspendDispatching = new(true)
	case !record && suspended:
		work.Spec.SuspendDispatching = nil
	}
	manifest := workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}
	if present := work.Spec.Workload.Manifests; len(present) == 1 && workv1alpha1.SameRaw(&present[0].RawExtension, &manifest.RawExtension) {
		return
	}
	work.Spec.Workload.Manifests = []workv1alpha1.Manifest{manifest}
}

// reshaped says whether more than the status changed.
func reshaped(before, after *workv1alpha1.Work) bool {
	return before.Generation != after.Generation || before.UID != after.UID ||
		!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations)
}

// label says whose slice a Work has.
func label(work *workv1alpha1.Work, owner map[string]string, slice types.NamespacedName) {
	work.Labels = labels.Merge(labels.Merge(work.Labels, owner), map[string]string{
		networkingv1alpha1.EndpointSliceWorkNamespaceLabel: slice.Namespace,
		networkingv1alpha1.EndpointSliceWorkManagedByLabel: networkingv1alpha1.KindMultiClusterService,
	})
	if len(slice.Name) <= validation.LabelValueMaxLength {
		work.Labels[networkingv1alpha1.EndpointSliceWorkNameLabel] = slice.Name
	} else {
		work.Annotations = labels.Merge(work.Annotations, map[string]string{sliceNameAnnotation: slice.Name})
	}
}

// sliceOf is the provider's slice that a Work is about.
func sliceOf(work metav1.Object) types.NamespacedName {
	name := work.GetLabels()[networkingv1alpha1.EndpointSliceWorkNameLabel]
	if name == "" {
		name = work.GetAnnotations()[sliceNameAnnotation]
	}
	return types.NamespacedName{Namespace: work.GetLabels()[networkingv1alpha1.EndpointSliceWorkNamespaceLabel], Name: name}
}

// sourceOf is the record that a dispatched Work was made from.
func sourceOf(work metav1.Object) types.NamespacedName {
	slice := sliceOf(work)
	return types.NamespacedName{
		Namespace: workv1alpha1.ExecutionNamespace(work.GetAnnotations()[networkingv1alpha1.EndpointSliceProvisionClusterAnnotation]),
		Name:      networkingv1alpha1.CollectedWorkName(slice.Namespace, slice.Name),
	}
}

// ownerOf is the MultiClusterService that a Work of this room belongs to, and with it the Service; empty for others.
func ownerOf(work metav1.Object) types.NamespacedName {
	return types.NamespacedName{
		Namespace: work.GetLabels()[networkingv1alpha1.MultiClusterServiceNamespaceLabel],
		Name:      work.GetLabels()[networkingv1alpha1.MultiClusterServiceNameLabel],
	}
}

func ownerLabels(mcs *networkingv1alpha1.MultiClusterService) map[string]string {
	return map[string]string{
		networkingv1alpha1.MultiClusterServicePermanentIDLabel: mcs.Labels[networkingv1alpha1.MultiClusterServicePermanentIDLabel],
		networkingv1alpha1.MultiClusterServiceNamespaceLabel:   mcs.Namespace,
		networkingv1alpha1.MultiClusterServiceNameLabel:        mcs.Name,
	}
}

// ownerLabelsOn are those labels as a record has them.
func ownerLabelsOn(record metav1.Object) map[string]string {
	labels := map[string]string{}
	for _, key := range []string{
		networkingv1alpha1.MultiClusterServicePermanentIDLabel,
		networkingv1alpha1.MultiClusterServiceNamespaceLabel, networkingv1alpha1.MultiClusterServiceNameLabel,
	} {
		labels[key] = record.GetLabels()[key]
	}
	return labels
}
