// Package search decides which resources of which members the search API reads.
//
// In: ResourceRegistries; of Clusters labels, region, provider, zones and the kinds that they serve.
//
// Out: the clusters and namespaces of a resource, for the server of the search API, and a notification when they may have changed.
//
// Owns: nothing: what it returns is computed from the caches of the control plane.
//
// Never: connects to a member, or decides what a user may read.
package search
