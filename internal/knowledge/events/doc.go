// Package events holds what the control plane reports to users through Kubernetes Events: the event as a plain value, the list of
// reasons, and two recorders. [Deduplicating] writes warnings and rare changes as core/v1 Events without delaying the caller.
// [Memory] keeps the successes of each object in memory, where the API server reads them.
//
// In: Event values, published by any package.
//
// Out: core/v1 Events, through the [Writer] it is given, and from [Memory.List] and [Memory.Watch].
//
// Owns: Events whose source component is "flagship".
//
// Never: blocks a reconcile, repeats an identical Event inside the deduplication window, or patches an Event that is stored.
package events
