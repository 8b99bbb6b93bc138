// Package events has the Kubernetes Events of the control plane: the event as a plain value, the list of reasons, and the recorder, which
// writes values as core/v1 Events without delaying the caller.
//
// In: Event values, published by any package.
//
// Out: core/v1 Events, through the [Writer] it is given.
//
// Owns: Events whose source component is "flagship".
//
// Never: blocks a reconcile, repeats an identical Event inside the deduplication window, or patches an Event that exists.
package events
