// Package v1alpha1 holds WorkloadRebalancer, a request to schedule workloads afresh.
//
// +kubebuilder:object:generate=true
// +groupName=apps.karmada.io
package v1alpha1
