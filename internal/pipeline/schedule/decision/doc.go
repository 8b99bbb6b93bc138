// Package decision has the types of one scheduling decision: a [Request] and an immutable [Snapshot] of the clusters go in, a
// [Decision] comes out. It has every cluster as a [Candidate] with the filter that dropped it and why, or with its score and what it
// received. The plugin interfaces [Filter] and [Scorer] are here, too. Nothing here or below needs a client or a clock.
package decision
