// Package collect records the EndpointSlices of providers in Works. It knows the control plane by Works alone, so that it runs wherever
// the connection to the provider is.
package collect
