// Package capacity knows how much fits where: it reads what a cluster says of
// itself and answers how many more replicas it can hold, remembers what was
// promised to a cluster and is not visible there yet, and shares a number of
// replicas among clusters by weight.
//
// In: Cluster.status and spec.resourceModels, the requirements of a replica,
// the promises that schedule makes.
//
// Out: numbers of replicas.
//
// Owns: nothing in the API.
//
// Never: talks to an API server, or reads a clock.
package capacity
