// Package v1alpha1 holds Cluster: a member of the fleet, how to reach it, and
// what is known about it.
//
// Cluster is served natively rather than as a custom resource, so its defaults,
// its validation and its OpenAPI definitions are Go code in this package.
//
// +kubebuilder:object:generate=true
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.karmada.cluster.v1alpha1
// +groupName=cluster.karmada.io
package v1alpha1
