// Package appfailover has applications leave clusters in which they are unhealthy for longer than their policy tolerates.
//
// In: bindings with failover.application and their aggregated status, Clusters, Works.
//
// Out: graceful eviction tasks in bindings, by package eviction; events.
//
// Owns: the tasks of its producers; the condition StatePreserved of bindings.
//
// Never: writes spec.clusters, which the scheduler does once it has another place, or ends a task because its copy was replaced, which
// features/evict does.
package appfailover
