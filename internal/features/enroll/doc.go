// Package enroll keeps members connected: finalizers, execution namespaces, credentials and their renewal. Joining and leaving are in
// its folder membership, the accounts in members in memberaccount.
//
// In: kubeconfig files of clusters, Clusters, the Secrets with their credentials.
//
// Out: in a member, the namespace karmada-cluster with two service accounts and their rights; on the hub, the Cluster,
// its two Secrets, and its execution namespace.
//
// Owns: the finalizer of Clusters, execution namespaces, credentials: tokens by TokenRequest, renewed after a third of
// their life, if need be with a renewal token, which does not expire.
//
// Never: keeps or logs the credentials it was given to join with, or touches an object in a member that it did not make.
package enroll
