// Package impersonate decides who acts in a member when a user of the control plane sends a request through clusters/NAME/proxy.
// The decision is used twice: the proxy sends the identity, and the member's roles named karmada-impersonator allow that identity
// and no other.
//
// Only those may be impersonated who hold clusters/proxy through a ClusterRoleBinding, and never the identities by which
// Kubernetes and the control plane act themselves.
package impersonate
