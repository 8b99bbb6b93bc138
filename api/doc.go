// Package api is the vocabulary of the project: the kinds, by group and version
// in the packages below, with their conditions, names and well-known keys.
//
// In: nothing. Out: nothing.
//
// Owns: the wire format, the custom resource definitions (package crds), and the
// names by which the two shores know each other.
//
// Never: imports a room, reads a clock, or talks to anything.
package api
