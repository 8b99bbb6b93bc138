// Package leader decides which of several servers on one storage runs the control loops, and refuses the writes of any other.
//
// In: the Lease flagship in the namespace karmada-system, and the monotonic clock of this process.
// Out: a lock for the leader election of client-go; clients and connections that refuse to write while the lock is not held.
// Owns: that Lease.
// Never: starts or ends loops.
//
// The rule. A term holds the lock for RenewDeadline, from the moment before its last successful renewal was requested. Another server
// takes the lock over Duration after it observed the last renewal, which is later than that moment. So for the difference of both, two
// seconds, no server writes, and what was requested before has that time to end. Only the clock of each process is used, and no times
// of others, so that wrong clocks change nothing.
package leader
