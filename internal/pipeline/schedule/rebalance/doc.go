// Package rebalance answers WorkloadRebalancers: it asks the scheduler to place
// the named workloads afresh, and says what became of each request.
//
// In: WorkloadRebalancers, and the bindings of the workloads they name.
//
// Out: spec.rescheduleTriggeredAt of bindings; the status of WorkloadRebalancers; the deletion of those whose time to live is over.
//
// Owns: those fields.
//
// Never: chooses clusters, or asks twice for what was asked once.
package rebalance
