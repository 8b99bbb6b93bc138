// Package restore detects that a control plane was restored from a backup, and lists what its members have that it does not.
//
// The control plane counts its periods of writing, for each member, in two Leases: its own storage has one and the member
// has the other. The own one is written first. A member whose Lease is ahead was written to by a later state of this control
// plane than the one that runs now: its storage was restored, or another control plane with a restored copy of it goes on. Until
// a person allows it, nothing is written to or deleted in that member. The Lease there is read again while it is written to. An
// annotation of the Cluster holds it in the same way: that of an imported control plane, or a person's.
//
// A count of its own, and not the revision of the storage, because a restored etcd may start with a higher revision, and an
// import into another storage starts with any.
//
// In: Clusters, Works, Leases on both sides, metadata of managed objects in members.
//
// Out: Leases on both sides; the metric and the lists of orphans.
//
// Owns: the condition DispatchingHeld of Clusters, the Leases named member-<cluster> on the control plane and
// flagship-<id of the control plane> in members.
//
// Never: changes or deletes an object in a member that it did not make.
package restore
