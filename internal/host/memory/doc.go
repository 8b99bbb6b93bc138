// Package memory keeps a process small: how eagerly garbage is collected follows how much is allocated.
package memory
