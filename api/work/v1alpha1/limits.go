package v1alpha1

// Annotations on a Namespace of the control plane with limits of its own, in place of the flags --namespace-object-limit and
// --namespace-size-limit. Only who may update Namespaces in the whole control plane may set, change or remove them: the right
// to update this one Namespace is not enough.
const (
	// ObjectLimitAnnotation is the number of objects that may be stored for the namespace, Works included. 0: any number.
	ObjectLimitAnnotation = "flagship.io/object-limit"
	// SizeLimitAnnotation is the number of bytes that may be stored for the namespace, Works included, as a Kubernetes quantity
	// such as 2Gi. 0: any number.
	SizeLimitAnnotation = "flagship.io/size-limit"
)
