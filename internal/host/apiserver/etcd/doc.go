// Package etcd is the storage of an API server: an etcd in this process, or a connection to one that runs elsewhere.
package etcd
