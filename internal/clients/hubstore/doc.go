// Package hubstore is the store of templates: it finds the kinds that users can create on the control plane, watches their objects as
// metadata, and reads and writes single objects by a typed reference. Stages use a [Store] and no client.
//
// In: discovery, and the metadata of every object whose kind can be listed, watched and deleted, built-in or custom. A kind is found as
// soon as its CustomResourceDefinition is established, and dropped when that is gone. Objects of the control plane itself are left
// out, see [Excluded].
//
// Out: merge patches to templates: metadata for propagate, status for aggregate.
//
// Owns: the field manager "flagship" on templates. It decides nothing about their content.
//
// Never: keeps full objects other than the last few that were read or written, writes what its caller did not pass, or notifies of changes of
// the status only.
package hubstore
