// Package hubclient is how controllers write typed objects on the control plane: one client for all, and one helper each for
// patches and finalizers. Objects of any kind, which users apply, are the matter of package hubstore.
package hubclient
