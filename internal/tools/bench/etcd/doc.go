// Package etcd runs a server of etcd in a child process, for a bench of several control plane servers on one etcd.
package etcd
