// Package hubclient has the client with which controllers read and write typed objects on the control plane, a barrier for writes that are no requests, a function each for patches,
// finalizers and the events of a kind, and lists of Works and of both scopes of a kind. Templates, which can be of any kind, are in package hubstore.
package hubclient
