// Package v1alpha1 holds ResourceRegistry: which objects of which members are read through the search API.
//
// +kubebuilder:object:generate=true
// +groupName=search.karmada.io
package v1alpha1
