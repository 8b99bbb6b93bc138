// Package answers gathers what an Explanation and a DriftReport are made of, from the caches of the control plane and the stages that
// decide, and from the episodes of drift.
//
// In: the object of the question, its policies, binding, Works and Clusters; the scheduler and the composer of Works.
// Out: the status of an Explanation or a DriftReport.
// Owns: nothing.
// Never: writes, decides, or puts into an answer what its author may not get.
package answers
