// Package stored keeps revisions of templates as ControllerRevisions, and deleted templates in Secrets, in the form that only the control
// plane reads.
//
// In: records of revisions and deletions.
// Out: ControllerRevisions named flagship-history-*; Secrets named flagship-deleted-* in the namespace flagship-system.
// Owns: both, and the Secret flagship-history-key with the key.
// Never: decides what is recorded, or who may read it.
package stored
