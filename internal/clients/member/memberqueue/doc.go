// Package memberqueue has work queues for reconciles that concern members: each member has its own queue and workers, so that one
// that hangs delays no other. In the queue of a member, what was changed just now takes turns with the rest, and in both tenants take turns.
package memberqueue
