// Package demo applies a few manifests to a control plane and shows how they travel: template, clusters, applied, ready.
//
// In: manifests and a client configuration of the hub.
// Out: the objects of the manifests, and lines for a person.
// Never: decides anything; what it shows is what templates and bindings say.
package demo
