// Package observe reflects the status, health and existence of a member's objects into Works.
//
// The report follows from the Work, the cached objects of the member, and the conditions that apply reports. In memory is only since
// when an object is unhealthy.
//
// For clusters with an agent, it reports an unknown status while the agent does not renew its Lease.
//
// In: Works, Clusters, and objects of members through the connections of package member.
//
// Out: status.manifestStatuses of Works, through package workstatus.
//
// Owns: the conditions Progressing, Available and Degraded of Works.
//
// Never: writes to a member, or reports on objects that it cannot read: of a member that cannot be reached the last state is
// kept, with health Unknown.
package observe
