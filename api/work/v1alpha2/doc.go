// Package v1alpha2 holds the bindings: what became of one template on its way
// through propagation and scheduling, and the sum of what its copies report back.
//
// ResourceBinding (for templates in a namespace) and ClusterResourceBinding are
// twins: the interface Binding lets one code path serve both.
//
// +kubebuilder:object:generate=true
// +groupName=work.karmada.io
package v1alpha2
