// Package hubclient has the client with which controllers read and write typed objects on the control plane, a function each for patches
// and finalizers, and lists of both scopes of a kind. Templates, which can be of any kind, are in package hubstore.
package hubclient
