// Package agents approves the certificates of agents: processes in members in Pull mode, which dial the control plane.
//
// A request is approved if it is made with a bootstrap token for that Cluster, or by the agent itself, which renews its certificate;
// and if it is for the Cluster as it exists now. Every other request for the certificate of an agent is denied. Karmadactl and its agent
// have certificates that name no Cluster object: these count as the Cluster lists them.
//
// In: CertificateSigningRequests, Clusters, the Secrets of bootstrap tokens.
//
// Out: the approval or denial of the requests; in a Cluster, the renewed certificates of its karmada-agent. The built-in controllers
// sign what is approved.
//
// Owns: nothing besides.
//
// Never: approves a request for anything but the certificate of an agent.
package agents
