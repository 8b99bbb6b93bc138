// Package v1alpha1 holds ServiceExport and ServiceImport of the Kubernetes
// multi-cluster services API.
//
// +kubebuilder:object:generate=true
// +groupName=multicluster.x-k8s.io
package v1alpha1
