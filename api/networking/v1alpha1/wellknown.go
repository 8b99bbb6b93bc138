package v1alpha1

// Labels (and, on Services and bindings, annotations) by which objects are traced back to a MultiClusterService.
const (
	// MultiClusterServicePermanentIDLabel carries the id (a UUID) of a MultiClusterService, on it, its Service, binding and Works.
	MultiClusterServicePermanentIDLabel = "multiclusterservice.karmada.io/permanent-id"
	// MultiClusterServiceNamespaceLabel is the namespace of the MultiClusterService.
	MultiClusterServiceNamespaceLabel = "multiclusterservice.karmada.io/namespace"
	// MultiClusterServiceNameLabel is the name of the MultiClusterService.
	MultiClusterServiceNameLabel = "multiclusterservice.karmada.io/name"
)

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
