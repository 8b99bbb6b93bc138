// Package mcs makes a Service of some clusters reachable from others, as a MultiClusterService of Karmada's API specifies.
//
// A MultiClusterService names a Service, the clusters that provide it and those that consume it. The Service goes to all of them
// through a binding, as any other template does. Its endpoints go another way:
//
//	EndpointSlices of a provider → collect → Work beside the other Works of the provider, suspended: a record
//	                                             ↓ dispatch
//	EndpointSlices of a consumer ← apply   ← Work of each other consumer
//
// collect runs where the connection to the provider is, dispatch on the control plane. They meet in the records, which stay while a
// provider cannot be reached and the control plane restarts.
//
// In: MultiClusterServices, the Services they name, Clusters, and the EndpointSlices of those Services in their providers. A member is
// watched only while it provides something: one watch for the slices with the label of a claimed Service, which the member's own
// controller copies from the Service, and one for each Service without a selector, whose slices lack that label.
//
// Out: the claim on a Service and its binding; records and Works with EndpointSlices; MultiClusterService status.
//
// Owns: MultiClusterService conditions ServiceApplied and EndpointSliceDispatched, its loadBalancer and finalizer; bindings with
// binding.karmada.io/managed-by=MultiClusterService; Works that name a MultiClusterService in their labels.
//
// Never: writes to a member itself, collects a slice that came from another cluster, or removes endpoints because their cluster cannot
// be reached: after a while they are marked as not ready.
package mcs
