// Package v1alpha2 holds the classic model of resource claims: a claim requests a resource of a driver,
// and the driver itself, not the scheduler, allocates it.
//
// Kubernetes served this version in releases 1.26 to 1.30 and has no Go types for it any more; the wire format here is
// that of 1.30. It shares a group with the model of today's clusters, resource.k8s.io/v1, and nothing else: neither
// types nor storage.
//
// The kinds are served natively rather than as custom resources, so their defaults, validation, OpenAPI definitions
// and protobuf encoding are Go code in this package.
//
// +kubebuilder:object:generate=true
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.k8s.api.resource.v1alpha2
// +groupName=resource.k8s.io
package v1alpha2
