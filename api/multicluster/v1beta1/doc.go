// Package v1beta1 holds ServiceExport and ServiceImport of the Kubernetes
// multi-cluster services API, in the version in which they are stored.
//
// +kubebuilder:object:generate=true
// +groupName=multicluster.x-k8s.io
package v1beta1
