// Package evict has objects leave clusters that fail or have NoExecute taints, and ends the graceful eviction tasks of all producers.
//
// In: Clusters (readiness, taints, annotations of persons), bindings with their aggregated status, templates when an eviction begins,
// Works of clusters that are left when the policy is exclusive.
//
// Out: events on templates and Clusters.
//
// Owns: spec.gracefulEvictionTasks of bindings, together with other producers that append through package eviction; the annotations
// flagship.io/returns-to and flagship.io/failed-over-from of bindings; the condition EvictionHeld of bindings and Clusters.
//
// Never: writes spec.clusters, connects to a member, deletes a Work, or evicts a copy that may be healthy while no other is.
package evict
