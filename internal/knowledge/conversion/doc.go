// Package conversion is what the stages know about kinds whose objects are not the same in every cluster, or need more than
// themselves there: custom resources with their definitions, and the claims of resource.k8s.io. Features implement Adviser, each for
// its kinds; the control plane chains them, and all stages have the chain.
package conversion
