// Package capacity computes how many more replicas a cluster can hold, and keeps what is reserved in a cluster and is not in its
// status yet. The package division in its folder divides replicas by weight.
//
// In: Cluster.status and spec.resourceModels, ClusterCapacity, the requirements of a replica, the reservations of package schedule.
//
// Out: numbers of replicas; ClusterCapacity out of nodes.
//
// Owns: nothing in the API.
//
// Never: sends requests, or reads a clock.
package capacity
