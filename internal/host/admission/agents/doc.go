// Package agents is the admission plugin that restricts what agents of clusters, and clients that register one, write.
//
// In: every write of an agent, or of a user with a bootstrap token.
// Out: the object, without the rights and Secrets that karmadactl and its agent write, or the reason why the write is refused.
// Owns: the annotation of a Cluster that records the credential of its karmada-agent.
// Never: restricts other users.
package agents
