// Package hubclient is how controllers read and write typed objects on the control plane: one client for all, one helper each for
// patches and finalizers, and lists of both scopes of a kind. Objects of any kind, which users apply, are the matter of package hubstore.
package hubclient
