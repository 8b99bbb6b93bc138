// Package template is the hub shore: it finds the kinds a user can put on the
// hub, watches their objects as metadata, and reads and writes single objects
// by a typed reference. Verbs see one [Store] and no client.
//
// In: discovery, and the metadata of every object whose kind can be listed,
// watched and deleted, built-in or custom. A kind is found as soon as its
// CustomResourceDefinition is established and forgotten when that is gone.
// Objects of the control plane itself are left out, see [Excluded].
//
// Out: merge patches to templates: metadata on behalf of propagate, status on
// behalf of aggregate.
//
// Owns: the field manager "flagship" on templates. It decides nothing about
// their content.
//
// Never: keeps a full object, writes what its caller did not ask for, or tells
// of changes that only concern status.
package hubstore
