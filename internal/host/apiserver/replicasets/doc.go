// Package replicasets is the storage of ReplicaSets on a hub: those in etcd, and for each Deployment one that stands for its newest
// ReplicaSets in the members. Helm and kubectl read the ReplicaSet of a Deployment, which no controller creates on a hub.
//
// In: the stored ReplicaSets and Deployments.
// Out: one collection of both that clients get, list and watch.
// Owns: nothing. A derived ReplicaSet is made from its Deployment with each request, and has the Deployment's resourceVersion.
// Never: stores a derived ReplicaSet, or lets clients change one.
package replicasets
