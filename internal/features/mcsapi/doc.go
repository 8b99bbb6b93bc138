// Package mcsapi makes Services that members export reachable from all members, as the MCS API of SIG-Multicluster specifies.
//
// A ServiceExport in a member takes nothing on the control plane. Exports of one name in several members are one service, which each
// member that has the namespace imports:
//
//	ServiceExport, Service, EndpointSlices of a member → exporter → Works beside the other Works of the member, suspended: records
//	                                                                   ↓ imports: clusterset.Merge
//	ServiceImport, Service derived-x, EndpointSlices ← apply ← Works of each member with the namespace
//	   ↑ addresses: the address of derived-x
//
// This package, the exporter, and package addresses run where the connection to the member is; package imports runs on the control
// plane. It writes the result for an export on the record of the export, from which the exporter sets the conditions in the member.
//
// In: ServiceExports, Services and EndpointSlices of members; ServiceImports and namespaces of the control plane; Clusters. A member is
// watched from when it got the definition of exports, for Services and slices in namespaces that have exports, and for namespaces while
// anything is exported anywhere.
//
// Out: records; Works with imports, derived Services, EndpointSlices and the definitions of exports and imports; on the control plane
// imports, derived Services and EndpointSlices.
//
// Owns: Works that name an export in their labels. In members, written by itself since Works carry no status: ServiceExport conditions
// Valid, Ready and Conflict, the status and spec.ips of ServiceImports that Works carry.
//
// Never: writes anything else to a member itself, exports a slice that came from another cluster, or removes endpoints because their
// cluster cannot be reached: after a while they are marked as not ready.
package mcsapi
