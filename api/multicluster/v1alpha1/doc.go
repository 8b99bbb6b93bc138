// Package v1alpha1 holds ServiceExport and ServiceImport of the Kubernetes
// multi-cluster services API, in its first version. The fields are those of
// v1beta1, so that objects need no conversion.
//
// +kubebuilder:object:generate=true
// +groupName=multicluster.x-k8s.io
package v1alpha1
