package v1alpha1

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// Labels (and, on Services and bindings, annotations) by which objects are traced back to a MultiClusterService.
const (
	// MultiClusterServicePermanentIDLabel carries the id (a UUID) of a MultiClusterService, on it, its Service, binding and Works.
	MultiClusterServicePermanentIDLabel = "multiclusterservice.karmada.io/permanent-id"
	// MultiClusterServiceNamespaceLabel is the namespace of the MultiClusterService.
	MultiClusterServiceNamespaceLabel = "multiclusterservice.karmada.io/namespace"
	// MultiClusterServiceNameLabel is the name of the MultiClusterService.
	MultiClusterServiceNameLabel = "multiclusterservice.karmada.io/name"
)

// ServiceContentAnnotation, on the binding of a Service that a MultiClusterService claims, is a digest of the content of the
// Service that the binding was last made from.
const ServiceContentAnnotation = "multiclusterservice.karmada.io/service-content"

// SelectorlessServiceAnnotation set to "true", on the record that makes a cluster a provider, says that the Service has
// no selector: its slices are made by its user and carry no mark.
const SelectorlessServiceAnnotation = "multiclusterservice.karmada.io/selectorless"

// Labels and annotations of Works that carry EndpointSlices.
const (
	// EndpointSliceWorkNamespaceLabel is the namespace of the slice in the Work.
	EndpointSliceWorkNamespaceLabel = "endpointslice.karmada.io/namespace"
	// EndpointSliceWorkNameLabel is the name of the slice in the Work.
	EndpointSliceWorkNameLabel = "endpointslice.karmada.io/name"
	// EndpointSliceWorkManagedByLabel lists the kinds on whose behalf the slice was collected, joined by dots.
	EndpointSliceWorkManagedByLabel = "endpointslice.karmada.io/managed-by"
	// EndpointSliceProvisionClusterAnnotation is the cluster a dispatched slice comes from.
	EndpointSliceProvisionClusterAnnotation = "endpointslice.karmada.io/provision-cluster"
)

// Values of endpointslice.kubernetes.io/managed-by on slices that were not made by
// a member itself; such slices are never collected.
const (
	EndpointSliceDispatchControllerLabelValue = "endpointslice-dispatch-controller.karmada.io"
	EndpointSliceControllerLabelValue         = "endpointslice-controller.karmada.io"
)

// Finalizers.
const (
	MultiClusterServiceFinalizer      = "karmada.io/multiclusterservice-controller"
	EndpointSliceFinalizer            = "karmada.io/endpointslice-controller"
	MCSEndpointSliceCollectFinalizer  = "karmada.io/mcs-endpointslice-collect-controller"
	MCSEndpointSliceDispatchFinalizer = "karmada.io/mcs-endpointslice-dispatch-controller"
	derivedServicePrefix              = "derived-"
	importedEndpointSlicePrefix       = "imported-"
)

// DerivedServiceName returns the name of the Service that stands for an imported service.
func DerivedServiceName(service string) string { return derivedServicePrefix + service }

// ImportedEndpointSliceName returns the name, on the control plane, of a slice exported by a cluster.
func ImportedEndpointSliceName(cluster, slice string) string {
	return importedEndpointSlicePrefix + cluster + "-" + slice
}

// DispatchedEndpointSliceName returns the name, in a consuming cluster, of a slice provided by another.
func DispatchedEndpointSliceName(provider, slice string) string { return provider + "-" + slice }

// CollectedWorkName returns the name of the Work, in its provider's execution namespace, that holds a collected slice.
func CollectedWorkName(namespace, slice string) string {
	return workv1alpha1.WorkName("EndpointSlice", namespace, slice)
}

// DispatchedWorkName returns the name of the Work, in a consumer's execution namespace, that carries a provider's
// slice. The provider is part of it, so that equal slices of two providers do not meet.
func DispatchedWorkName(provider, namespace, slice string) string {
	const longest = 240 // an object's name may have 253 characters; the hash takes up to 11
	name := strings.ToLower(DispatchedEndpointSliceName(provider, slice))
	if len(name) > longest {
		name = strings.TrimRight(name[:longest], "-.")
	}
	return name + "-" + workv1alpha1.NameHash(fmt.Sprintf("%s-%s/%s-endpointslice", namespace, provider, slice))
}

// IsRecord reports that a Work is kept for the control plane to read: a MultiClusterService that a provider takes part in,
// or a slice collected from it. It is suspended, and nothing of it is applied.
func IsRecord(work metav1.Object) bool {
	_, dispatched := work.GetAnnotations()[EndpointSliceProvisionClusterAnnotation]
	_, service := work.GetLabels()[MultiClusterServiceNameLabel]
	return service && !dispatched
}
