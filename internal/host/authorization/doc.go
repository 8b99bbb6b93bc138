// Package authorization bounds what agents, and clients that register an agent, may do on the control plane, in the manner of the node
// authorizer of Kubernetes. It allows what they need and has no opinion about the rest, which RBAC decides.
//
// What depends on the content of a request, such as the name of an object that is created, is checked by the plugin Agents of package
// admission.
package authorization
