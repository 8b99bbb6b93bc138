// Package local reads and writes native kinds in the process of their API server, by calls of their storage.
//
// In: the storage of the kinds, and what the server has every request checked by.
// Out: a client and informers for the loops of the process.
// Owns: nothing.
// Never: skips what holds for a request: a write is authorized, admitted, validated and counted.
//
// A request is encoded, decoded, routed through thirty handlers in goroutines of their own, and answered in the same way. For Works and
// bindings, which the loops write all the time, that took a third of the control plane's CPU time (docs/measurements.md).
package local
