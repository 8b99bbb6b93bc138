// Package kubelet serves what the kubelets of a member's simulated nodes serve: logs, exec, attach and port-forward of pods.
//
// In: requests of the member's API server, and its pods.
// Out: text about the pods.
// Owns: a certificate authority for the connections of the API server.
// Never: runs a command, opens a file or a connection that a request names, or reads a Secret.
package kubelet
