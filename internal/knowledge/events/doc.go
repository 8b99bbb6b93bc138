// Package event holds what the rooms tell a user through Kubernetes Events:
// the event as a plain value, the list of reasons that may be used, and the
// recorder that turns values into core/v1 Events without ever holding up the
// caller.
//
// In: Event values, published by any room.
//
// Out: core/v1 Events, through the [Writer] it is given.
//
// Owns: Events whose source component is "flagship".
//
// Never: blocks a reconcile, repeats an identical Event inside the
// deduplication window, or patches an Event that exists.
package events
