// Package schedule chooses the clusters of a binding and divides its replicas
// among them.
//
// The pure half is [Schedule]: a [Request] and an immutable [Snapshot] of the
// fleet in, a [Decision] out that says for every cluster which filter dropped
// it and why, or how it scored and what it received. The other half, behind
// [Setup], decides when a binding has to be looked at again and writes what
// changed.
//
// In: ResourceBindings, ClusterResourceBindings, Clusters.
//
// Out: spec.clusters and the applied-placement annotation of bindings, and in
// the same write status.schedulerObservedGeneration,
// status.schedulerObservingAffinityName, status.lastScheduledTime and the
// Scheduled condition. One event per changed result, on the template.
//
// Owns: those fields, and the condition Scheduled.
//
// Never: takes running copies away because scheduling failed, moves what need
// not move, writes what has not changed, or talks to a member.
package schedule
