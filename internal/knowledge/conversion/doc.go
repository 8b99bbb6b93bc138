// Package conversion has the interface for kinds whose objects are not the same in every cluster, or need other objects there: custom
// resources with their definitions, and the claims of resource.k8s.io. Features implement Adviser, each for its kinds; the control plane
// chains them, and all stages use the chain.
package conversion
