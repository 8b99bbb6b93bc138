// Package remedy reports in each Cluster the actions that Remedies require for its conditions.
//
// In: Clusters, Remedies.
//
// Out: Cluster status.remedyActions.
//
// Owns: that field.
//
// Never: acts on it: TrafficControl is for the controllers of load balancers.
package remedy
