package v1alpha2

// Annotations on what stands for an object of this version in a cluster that serves only today's model. They keep what
// has no field there.
const (
	// TranslatedFromAnnotation names the version an object was translated from. Its status is translated back.
	TranslatedFromAnnotation = "flagship.io/translated-from"
	// ParametersRefAnnotation is the parametersRef of a claim or class as JSON. Nothing in such a cluster acts on it.
	ParametersRefAnnotation = "flagship.io/v1alpha2-parameters-ref"
	// AllocationModeAnnotation is the allocation mode of a claim unless it is the default. Schedulers of today allocate
	// when a pod needs the claim, whichever is set.
	AllocationModeAnnotation = "flagship.io/v1alpha2-allocation-mode"
	// StructuredParametersAnnotation is "true" for a class that had it so.
	StructuredParametersAnnotation = "flagship.io/v1alpha2-structured-parameters"
)
