// Package apply makes a member match its Works. The same code runs in the control plane, for members that it can reach, and in an
// agent, for its own cluster.
//
// Every object is written with server-side apply, under one field manager for each control plane. What was applied last is in an
// annotation of the object: a hash of the manifest, and a footprint of the fields that were set. With the field ownership that the
// API server keeps, the annotation answers these without a request, also after a restart:
//
//   - Is there something to do? Not if the hash is that of the Work, the control plane still owns every field in the footprint, and
//     each has the value of the manifest, or the one to which the member defaulted it. A client that changes a value takes the
//     ownership, unless it writes under the name of our field manager.
//   - Another manager owns a field. Is that drift? If the field is in the footprint, it is drift, and is forced; else it is a conflict,
//     which is reported while the rest is applied.
//   - May the object be changed at all? Only if it has the managed label and no id of another control plane, or the user allows to
//     overwrite it.
//
// A Deployment that Karmada made has no such annotation: one more raises its generation. If it is as desired, its fields and labels are
// applied and its annotations stay, until its content changes. The fields that are owned stand for the annotation then.
//
// Sub-packages: ssa decides without requests, unmarked is about such a Deployment, objects writes one object, contents finds what a
// namespace holds, conceal leaves values out of messages.
//
// In: Works, Clusters, and objects of members through the connections of package member.
//
// Out: objects in members; the state of the brake on Clusters; of Works the finalizer and, through package workstatus, the status.
//
// Owns: the finalizer karmada.io/execution-controller, the conditions Applied and Dispatching of Works, and the condition
// BrakeEngaged of Clusters.
//
// Never: deletes or changes an object of another owner, or a namespace with such an object in it, or delays one member because of
// another.
package apply
