// Package v1alpha1 holds the kinds of Flagship itself, which Karmada does not have: ClusterCapacity, what the nodes of a cluster have
// free, and Explanation, a question about an object that is answered and not stored.
//
// +kubebuilder:object:generate=true
// +groupName=fleet.flagship.io
package v1alpha1
