// Package credential obtains and renews the client certificate with which an agent reaches the control plane.
package credential
