// Package usage serves metrics.k8s.io in a member: what its simulated pods and nodes use.
//
// In: the pods and nodes in the caches of the API server.
// Out: PodMetrics and NodeMetrics, computed when they are read.
// Owns: nothing.
// Never: measures anything.
package usage
