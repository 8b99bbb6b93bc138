package v1alpha2

// Labels.
const (
	// ResourceBindingPermanentIDLabel carries the id (a UUID) of a ResourceBinding, on it, its Works and their objects.
	ResourceBindingPermanentIDLabel = "resourcebinding.karmada.io/permanent-id"
	// ClusterResourceBindingPermanentIDLabel carries the id (a UUID) of a ClusterResourceBinding, on it, its Works and their objects.
	ClusterResourceBindingPermanentIDLabel = "clusterresourcebinding.karmada.io/permanent-id"
	// BindingManagedByLabel names the kind whose controller, rather than a policy, built a binding.
	BindingManagedByLabel = "binding.karmada.io/managed-by"
	// dependedByLabelPrefix begins the labels of an attached binding, one per binding that depends on it.
	dependedByLabelPrefix = "resourcebinding.karmada.io/depended-by-"
)

// Annotations on Works and their objects that name the binding they come from.
const (
	ResourceBindingNamespaceAnnotation   = "resourcebinding.karmada.io/namespace"
	ResourceBindingNameAnnotation        = "resourcebinding.karmada.io/name"
	ClusterResourceBindingNameAnnotation = "clusterresourcebinding.karmada.io/name"
)

// Annotations on bindings.
const (
	// AppliedPlacementAnnotation is the placement, as JSON, that the present targets were chosen by.
	AppliedPlacementAnnotation = "policy.karmada.io/applied-placement"
	// AwaitsClaimsAnnotation is there, as "true", while the present targets were chosen without knowing what devices the
	// object claims, since a claim or claim template that it names did not exist.
	AwaitsClaimsAnnotation = "flagship.io/awaits-claims"
	// IdentitiesAnnotation is what the replicas of the template are to each other, as the interpreter returns it: Whole for a set that one
	// cluster runs as a whole, Named for replicas whose names begin anew in each cluster, Unknown for those
	// that it cannot read. Without it they are all alike, or there are none.
	IdentitiesAnnotation = "flagship.io/identities"
	// ReplicaLimitsAnnotation has, as JSON, clusters that take no more than some replicas for a while; see ReplicaLimits.
	ReplicaLimitsAnnotation = "flagship.io/replica-limits"
	// ReturnsAnnotation lists, as JSON, the clusters that the scheduler is to give their replicas back, since what made the object
	// leave them is over.
	ReturnsAnnotation = "flagship.io/returns-to"
	// FailedOverAnnotation lists, as JSON, the clusters that the object left because they failed, and may return to.
	FailedOverAnnotation = "flagship.io/failed-over-from"
	// TemplateContentAnnotation is a digest of the content of the template that the binding was last made from, so that a restart
	// finds nothing to do.
	TemplateContentAnnotation = "resourcetemplate.karmada.io/content"
	// DependenciesAnnotation lists, as JSON, the objects that the template refers to.
	DependenciesAnnotation = "resourcebinding.karmada.io/dependencies"
)

// Finalizers.
const (
	// ResourceBindingFinalizer keeps a ResourceBinding until its Works are gone.
	ResourceBindingFinalizer = "karmada.io/binding-controller"
	// ClusterResourceBindingFinalizer keeps a ClusterResourceBinding until its Works are gone.
	ClusterResourceBindingFinalizer = "karmada.io/cluster-resource-binding-controller"
	// DependenciesFinalizer keeps a ResourceBinding until nothing is attached on its behalf.
	DependenciesFinalizer = "karmada.io/binding-dependencies-distributor"
)

// Reasons of graceful eviction tasks.
const (
	EvictionReasonTaintUntolerated   = "TaintUntolerated"
	EvictionReasonApplicationFailure = "ApplicationFailure"
)

// Producers of graceful eviction tasks.
const (
	EvictionProducerTaintManager           = "TaintManager"
	EvictionProducerRBApplicationFailover  = "resource-binding-application-failover-controller"
	EvictionProducerCRBApplicationFailover = "cluster-resource-binding-application-failover-controller"
)
