// Package limit bounds what is stored for each namespace of the control plane, so that one tenant cannot take the storage of
// all.
//
// In: what storage counts in each namespace; Works, each of which counts for the namespace of its binding; the annotations of
// Namespaces.
// Out: whether more may be stored for a namespace; Events before a limit is reached; metrics.
// Owns: the Events on Namespaces about their usage, and about the usage of the whole storage.
// Never: refuses a deletion, or an update that makes an object smaller.
//
// Where a limit acts: admission refuses what users create or enlarge. That alone is not enough, because a user writes many
// templates first and then one policy that makes a Work of each for every cluster. So rendering neither creates nor enlarges
// Works of a namespace that is at its limit: a condition of the binding reports it, the binding waits without retries, and is rendered again when there is
// space. Nothing else of the control plane is refused.
//
// Objects that are written at the same moment are not counted yet, so a namespace can exceed its limit by these.
package limit
