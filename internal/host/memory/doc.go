// Package memory keeps a process small, and within the limit of its cgroup: how eagerly garbage is collected follows how much is allocated, and
// near the limit it says that memory is short.
package memory
