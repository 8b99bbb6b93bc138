// Package apply makes a member match its Works. The same code runs in the hub, for members it can reach, and in an
// agent, for its own cluster.
//
// Every object is written with server-side apply under one field manager for each control plane, so that what a member's own controllers set
// stays theirs. What was applied is recorded in one annotation on the object: a hash of what was wanted, and a footprint
// of the fields that were set. Together with the field ownership that the API server keeps, the record answers three
// questions without a request and without a memory that a restart could lose:
//
//   - Is there anything to do? Not if the hash is that of the Work, we still own every field in the footprint, and each
//     has the value that we want, or that the member made of it: whoever changes a value takes our ownership of it away,
//     unless he writes under our name.
//   - A field we want belongs to somebody else now. Is that drift, or theirs? If it is in the footprint it was ours, and
//     is taken back by force; if it never was, it is a conflict, which is reported while the rest is applied.
//   - May we touch the object at all? Only if it carries the managed label and no other control plane's id, or the user
//     asked to overwrite.
//
// In: Works, Clusters, and objects of members through the connections of package member.
//
// Out: objects in members; the state of the brake on Clusters; of Works the finalizer and, through package report, the status.
//
// Owns: the finalizer karmada.io/execution-controller, the conditions Applied and Dispatching of Works, and
// the condition BrakeEngaged of Clusters.
//
// Never: deletes or changes an object that is not ours, or a namespace with such an object in it, or lets one member wait for another.
package apply
