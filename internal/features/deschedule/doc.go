// Package deschedule limits the replicas of Deployments in clusters in which their pods cannot be scheduled, so that the scheduler
// places them elsewhere. It acts where the policy has the annotation flagship.io/deschedule.
//
// In: pods of members that no node takes, in memory and in the ClusterCapacities that agents write; bindings and their aggregated status.
//
// Out: the annotation flagship.io/replica-limits of bindings; events.
//
// Owns: that annotation.
//
// Never: writes spec.clusters, which the scheduler does if all replicas fit elsewhere, or connects to a member.
package deschedule
