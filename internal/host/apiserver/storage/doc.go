// Package storage connects an API server to the etcd in its own process by function calls. It counts of which resources there are
// objects in etcd, and how much is stored in each namespace, wherever etcd runs.
//
// In: the running etcd, and upstream's options for the storage of each resource.
// Out: the same options, with storage that makes no connection; counts.
// Owns: the compaction of that etcd's history.
// Never: changes what is stored, or where.
//
// The watch caches above keep every version of every object for more than a minute. Versions of one object
// share here what did not change between them.
//
// Upstream opens one connection to etcd for every resource. Between two halves of one process that is a
// hundred sockets with their buffers and a thousand goroutines, and every read, write and event is encoded
// and decoded once more on its way.
package storage
