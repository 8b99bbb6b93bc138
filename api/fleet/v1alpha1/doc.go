// Package v1alpha1 holds the kinds of Flagship itself, which Karmada does not have: ClusterCapacity, what the nodes of a cluster have
// free, and two questions that are answered and not stored: Explanation, about an object, and DriftReport, about what differs in members.
//
// +kubebuilder:object:generate=true
// +groupName=fleet.flagship.io
package v1alpha1
