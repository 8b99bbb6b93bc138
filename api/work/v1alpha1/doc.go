// Package v1alpha1 holds Work: the objects one member cluster should have, and
// what became of them there.
//
// The package also owns the names that join the two shores: execution
// namespaces, Work names, and the labels and annotations by which a member's
// object is traced back to its Work and template.
//
// +kubebuilder:object:generate=true
// +groupName=work.karmada.io
package v1alpha1
