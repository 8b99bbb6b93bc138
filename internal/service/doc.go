// Package service makes a Service of one cluster reachable from others.
//
// A MultiClusterService names a Service, the clusters that provide it and those that consume it. The Service goes to all
// of them through a binding like any other template. Its endpoints take a way of their own:
//
//	provider's EndpointSlices → collect → Work beside the provider's others, suspended: a record
//	                                        ↓ dispatch
//	consumer's EndpointSlices ← apply  ← Work of every other consumer
//
// Collect runs where the connection to the provider is, dispatch on the control plane; they meet in the records, which
// outlive a restart while a provider is away.
//
// In: MultiClusterServices, the Services they name, Clusters, and the EndpointSlices of those Services in their providers.
// A member is watched only while it provides something: one watch for the slices that carry the mark of a claimed Service,
// which the member's own controller copies from the Service, and one for each Service without a selector, whose slices
// nobody marks.
//
// Out: the claim on a Service and its binding; records and Works with EndpointSlices; MultiClusterService status.
//
// Owns: MultiClusterService conditions ServiceApplied and EndpointSliceDispatched, its loadBalancer and finalizer; bindings
// with binding.karmada.io/managed-by=MultiClusterService; Works that name a MultiClusterService in their labels.
//
// Never: writes to a member itself, collects a slice that came from another cluster, or takes endpoints away because their
// cluster cannot be reached: after a while they are marked as not ready.
package service
