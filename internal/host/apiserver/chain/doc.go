// Package chain links the API servers of a process: the aggregator, the built-in kinds, the native groups of the control plane, and custom
// resources. Each passes on the requests that it does not serve.
package chain
