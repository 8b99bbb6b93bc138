// Package collect records the EndpointSlices of providers in Works. It reads and writes only Works in the control plane, so that it runs wherever
// the connection to the provider is.
package collect
