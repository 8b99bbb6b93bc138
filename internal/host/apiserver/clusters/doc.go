// Package clusters serves cluster.karmada.io as a native group of the hub's API server.
//
// In: requests for Clusters, and a way to reach a member.
// Out: Clusters in storage, and requests of users carried on to members.
// Owns: defaults and validation of Cluster, metadata.generation, spec.taints[].timeAdded, and the
// subresources status and proxy.
// Never: writes a Cluster's status, or calls a member except for a request to clusters/NAME/proxy,
// or to clusters/*/proxy, which reads from all members.
//
// It is native, not a custom resource, for the sake of the proxy subresource.
package clusters
