// Package resourceclaims is what resource claims of v1alpha2 are outside the control plane: what they become in a member that serves
// another version, what such a member's status means in theirs, what the copies in several members add up to, and what
// devices an object needs.
//
// In: objects, the list of kinds a Cluster serves, the statuses of copies; for the devices an object needs, the claims
// and claim templates it names, from the store.
//
// Out: values. The one thing written is the status of a claim on the control plane, for aggregate, through [Templates].
//
// Owns: the annotations of a translated object, the rule by which allocations are added up, and the names under which
// a Cluster's resource summary counts devices.
//
// Never: allocates, watches members, or guesses: what has no counterpart is refused with the reason.
package resourceclaims
