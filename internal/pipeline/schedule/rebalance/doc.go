// Package rebalance reconciles WorkloadRebalancers: it requests that the scheduler places the named workloads afresh, and reports the
// result of each request.
//
// In: WorkloadRebalancers, and the bindings of the workloads they name.
//
// Out: spec.rescheduleTriggeredAt of bindings; the status of WorkloadRebalancers; the deletion of those whose time to live is over.
//
// Owns: those fields.
//
// Never: chooses clusters, or requests twice what was requested once.
package rebalance
