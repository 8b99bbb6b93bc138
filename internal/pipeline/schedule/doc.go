// Package schedule chooses the clusters of a binding and divides its replicas among them.
//
// Package decision and the packages below it make the decision; they are pure. This package decides when a binding is scheduled again, and
// writes the result if it differs.
//
// In: ResourceBindings, ClusterResourceBindings, Clusters. A cluster with a graceful eviction task is dropped once there is another place;
// one in the annotation returns-to is given its replicas back.
//
// Out: spec.clusters and the applied-placement annotation of bindings, and in the same write status.schedulerObservedGeneration,
// status.schedulerObservingAffinityName, status.lastScheduledTime and the Scheduled condition. One event per changed result, on the
// template.
//
// Owns: those fields, and the condition Scheduled.
//
// Never: removes running copies because scheduling failed, moves what need not move, writes what has not changed, or connects to a
// member.
package schedule
