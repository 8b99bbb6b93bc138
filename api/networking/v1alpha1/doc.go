// Package v1alpha1 holds services and ingresses that span member clusters.
//
// +kubebuilder:object:generate=true
// +groupName=networking.karmada.io
package v1alpha1
