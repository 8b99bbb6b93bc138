// Package taintpolicies adds taints to Clusters and removes them, as ClusterTaintPolicies require.
//
// In: Clusters, ClusterTaintPolicies.
//
// Out: taints of Clusters; events.
//
// Owns: of Cluster spec.taints, those that a policy adds or removes at present.
//
// Never: writes a taint that follows from the Ready condition, which clusterstatus writes, or changes a Cluster because a policy is
// deleted.
package taintpolicies
