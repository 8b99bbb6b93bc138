// Package affinity selects clusters by a ClusterAffinity, for scheduling, static weights and override rules alike.
package affinity
