// Package eventstorage is the storage of Events: those in etcd and those that the control plane keeps in memory, as one collection
// that clients get, list, watch and delete.
//
// A resourceVersion of this collection has two parts. The upper bits are a revision of etcd, the lower 26 bits a version of the
// memory. A list has both parts as they were when it was read. Along a watch each part grows, so that a client that resumes from
// what it received last misses nothing of either. A stored Event that was read or listed has the lower part 0.
package eventstorage
