// Package fairqueue is a queue in which groups take turns, and the same order, without priorities, for queues of package workqueue. A
// namespace with ten thousand objects to reconcile then delays another with one by a single object, instead of by ten thousand.
//
// In: requests of a loop, their priorities, and the group of each.
//
// Out: the order in which they are handled: by priority; among equals one of each group after the other; within a group as they
// came.
//
// Owns: nothing.
//
// Never: drops a request, or lets a group wait for more than one request of each other group before its next.
package fairqueue
