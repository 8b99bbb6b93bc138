// Package v1alpha1 holds Work: the objects one member cluster should have, and
// their status there.
//
// The package also owns the names that the control plane and members share:
// execution namespaces, Work names, and the labels and annotations that lead from
// an object in a member to its Work and template.
//
// +kubebuilder:object:generate=true
// +groupName=work.karmada.io
package v1alpha1
