// Package observe reflects the status, health and existence of a member's objects into Works.
//
// What it reports follows from the Work, the cached objects of the member, and the conditions that apply reports. It remembers
// only for how long an object has been unhealthy.
//
// Of clusters that an agent observes, it reports that nothing is known for as long as the agent is silent.
//
// In: Works, Clusters, and objects of members through the connections of package member.
//
// Out: status.manifestStatuses of Works, through package workstatus.
//
// Owns: the conditions Progressing, Available and Degraded of Works.
//
// Never: writes to a member, or reports on objects that it cannot see: of a member that cannot be reached the last state is
// kept, with health Unknown.
package observe
