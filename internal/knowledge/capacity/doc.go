// Package capacity computes how many more replicas a cluster can hold, keeps what is reserved in a cluster and is not in its
// status yet, and divides a number of replicas among clusters by weight.
//
// In: Cluster.status and spec.resourceModels, the requirements of a replica, the reservations of package schedule.
//
// Out: numbers of replicas.
//
// Owns: nothing in the API.
//
// Never: sends requests, or reads a clock.
package capacity
