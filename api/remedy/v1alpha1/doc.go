// Package v1alpha1 holds Remedy: what should be done about clusters in a given condition.
//
// +kubebuilder:object:generate=true
// +groupName=remedy.karmada.io
package v1alpha1
