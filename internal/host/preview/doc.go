// Package preview computes what a change of the control plane would do, with the loops that would do it.
//
// A [Run] has the loops of propagate, namespaces, evict, schedule and render on a view of the control plane on which writes stay in memory
// (package overlay). The objects of the change are set there, and the loops reconcile one request after the other until none is left.
// What the view has then and the control plane does not is the answer. So there is no rule here that the loops have.
package preview
