// Package resourceclaims serves resource.k8s.io/v1alpha2 as a native group version of the hub's API server.
//
// In: requests for ResourceClaims, ResourceClaimTemplates, ResourceClasses and PodSchedulingContexts of that version.
// Out: those objects in storage, under a prefix of their own.
// Owns: their defaults and validation, and the subresources status.
// Never: allocates anything, or reads the objects of resource.k8s.io/v1: to clients the two versions are one group, to
// this package they are strangers that happen to share a path.
//
// It is native, not a custom resource, because deletion answers with the claim, status is compared with what was
// there, and clients send protobuf and strategic merge patches.
package resourceclaims
