// Package history records what a template meant for the clusters, and answers questions about it.
//
// A revision is the template, the propagation policy that it belongs to, the override policies that select it, and its targets with their
// replicas. The first revision of a template is written together with the second: an object that never changes costs nothing. What it was
// before its first change is read from the storage, which has every version of the last five minutes, as of the storage revision before
// that change. So nothing has to be kept in memory but which templates changed, and since which revision.
//
// Three seconds after the first change the state is compared with the last revision, by a hash, and written if it differs: changes within
// these seconds are one revision. One worker does this, which bounds the rate. A process that ends loses the changes that it has not
// recorded: the next change is recorded with what was there before it, and the state before the lost change is missing.
//
// The content of a ControllerRevision is encrypted with a key in a Secret of the namespace flagship-system, and bound to the uid of the
// template. Who may read ControllerRevisions need not have the right to get the template, a Secret or a cluster-wide policy, and what
// a user writes as a ControllerRevision is not read. Revisions of cluster-scoped templates are in flagship-system as well.
//
// A template that was propagated and is deleted is kept in the same form for a day, in Secrets of flagship-system, read from the storage as
// of the revision before its deletion. Its policies are read as of their own deletion, if that was just before.
//
// Lists of what was deleted, and the timeline, are made of metadata: of tombstones an encrypted annotation names the objects, and of revisions
// only those in the answer are read, one after the other. What is recorded without its content, since that is too large, has its size.
//
// In: metadata of templates, bindings, propagation policies and override policies, each with what it was before; the users who requested
// these changes, from admission; storage as of an earlier revision.
//
// Out: through package stored, ControllerRevisions named flagship-history-* and Secrets named flagship-deleted-*; the status of Histories,
// Undeletions and Timelines.
//
// Owns: the ControllerRevisions with the label flagship.io/history-of, and the Secrets flagship-deleted-* and flagship-history-key.
//
// Never: changes a template or a policy: who undoes a change does that, with his own rights. It never answers with what the author of a
// question may not get.
package history
