// Package clusterstatus reports the state of members: readiness, served kinds, version, nodes, resources and devices.
//
// Of a cluster in Pull mode the agent reports all that. For as long as the agent does not renew its Lease, this package sets
// Ready to Unknown.
//
// In: Clusters, Leases of agents, and through the connections of package member the health, the API list, nodes, pods and
// devices of members.
//
// Out: the status of Clusters and the taints that follow from readiness; events.
//
// Owns: the conditions Ready, CompleteAPIEnablements and ResourcesReadable of Clusters.
//
// Never: writes to a member, or keeps the nodes and pods of one.
package clusterstatus
