// Package api has the kinds, by group and version in the packages below, with
// their conditions, names and well-known keys.
//
// In: nothing. Out: nothing.
//
// Owns: the wire format, the custom resource definitions (package crds), and the
// names of objects, labels and annotations that the control plane and members share.
//
// Never: imports a package under internal, reads a clock, sends requests.
package api
