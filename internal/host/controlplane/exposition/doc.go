// Package exposition serves the metrics of a control plane.
//
// In: the registries of the API server, of controller-runtime, and of the control plane itself.
// Out: the pages /metrics and /metrics/flagship.
// Owns: nothing.
// Never: counts anything itself, but for the capacity of the storage, which it reads.
package exposition
