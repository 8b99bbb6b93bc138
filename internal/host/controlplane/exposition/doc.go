// Package exposition serves the metrics of a control plane.
//
// In: the registries of the API server, of controller-runtime, and of the control plane itself.
// Out: the pages /metrics and /metrics/flagship.
// Owns: nothing.
// Never: counts anything itself, but for the capacity of the storage and the time of the last backup, which it reads.
package exposition
