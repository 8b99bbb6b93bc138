// Package observe watches members: it reflects the status, health and existence of our objects into Works, and the state
// of a member into its Cluster.
//
// What it says about a Work follows from the Work, the member's objects as they are cached, and what apply says; nothing
// is remembered that a restart would miss, but for how long an object has been unhealthy.
//
// Of clusters that another process observes, such as an agent, it says that nothing is known when that process is silent,
// and takes it back.
//
// In: Works, Clusters, Leases of agents, and objects of members through the connections of package member.
//
// Out: of Works, through package report, status.manifestStatuses, and what apply said if somebody takes that away; of
// Clusters the status and the condition taints.
//
// Owns: the conditions Progressing, Available and Degraded of Works; Ready and CompleteAPIEnablements of Clusters.
//
// Never: writes to a member, or claims to know about objects it cannot see: what a member that is out of reach had last
// is kept, with health Unknown.
package observe
