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
// A ServiceExport in a member needs no word from the control plane. Exports of one name in several members are one service,
// which every member that has the namespace imports:
//
//	member's ServiceExport, Service, EndpointSlices → exporter → Works beside the member's others, suspended: records
//	                                                              ↓ importer: clusterset.Merge
//	ServiceImport, Service derived-x, EndpointSlices ← apply ← Works of every member with the namespace
//	   ↑ addresser: the address of derived-x
//
// Exporter and addresser run where the connection to the member is. What the control plane makes of an export it notes on
// the export's record, from where the exporter tells it.
//
// In: MultiClusterServices, the Services they name, Clusters, and the EndpointSlices of those Services in their providers.
// A member is watched only while it provides something: one watch for the slices that carry the mark of a claimed Service,
// which the member's own controller copies from the Service, and one for each Service without a selector, whose slices
// nobody marks. For exports a member is watched from when it got their definition, for Services and slices in namespaces
// that have exports, and for namespaces while anything is exported anywhere.
//
// Out: the claim on a Service and its binding; records and Works with EndpointSlices; MultiClusterService status. Works with
// imports, derived Services and the definitions of exports and imports; imports on the control plane.
//
// Owns: MultiClusterService conditions ServiceApplied and EndpointSliceDispatched, its loadBalancer and finalizer; bindings
// with binding.karmada.io/managed-by=MultiClusterService; Works that name a MultiClusterService or an export in their labels.
// In members, written by itself since Works carry no status: ServiceExport conditions Valid, Ready and Conflict, the status
// and spec.ips of ServiceImports that Works carry.
//
// Never: writes anything else to a member itself, collects a slice that came from another cluster, or takes endpoints away because their
// cluster cannot be reached: after a while they are marked as not ready.
package service
