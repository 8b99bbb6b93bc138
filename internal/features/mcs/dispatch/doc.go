// Package dispatch carries the recorded EndpointSlices of providers to the consumers of their MultiClusterService.
package dispatch
