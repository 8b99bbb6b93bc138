// Package triggers finds the bindings that have to be rendered again after a change of another object: an override policy, a Cluster, the
// meaning of a kind, or the space of a namespace.
package triggers
