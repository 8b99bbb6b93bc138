// Package eviction has the rules of graceful eviction tasks, the entries of spec.gracefulEvictionTasks of a binding. It is pure.
//
// A controller that has an object leave a cluster calls Append and writes the binding. It does not change spec.clusters: the scheduler
// drops a cluster with a task from its next result, and if it finds no other place the cluster stays a target, so the copy stays.
// Render keeps the copy of a cluster with a task, or removes it first if the purge mode is Directly.
//
// Package features/evict calls Assess for every binding with tasks, whoever appended them, and removes those that are finished. A
// controller that appended a task for a reason which no longer holds calls Cancel: the task is removed, and the scheduler gives the
// cluster its replicas back (see Returns).
//
// PreserveState reads from the status of the copy that is left the labels for the one that takes over.
//
// The caller writes the binding as an update or a patch with its resource version: a list is replaced as a whole.
package eviction
