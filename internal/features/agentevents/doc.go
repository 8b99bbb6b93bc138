// Package agentevents publishes the events of success about Works in clusters in Pull mode. Events of success are kept in the memory of the
// control plane, which agents cannot write; what they report in the status of a Work says the same.
//
// In: Works, Clusters.
//
// Out: events in memory.
//
// Owns: nothing.
//
// Never: publishes for a cluster in Push mode, whose loops do that, nor about Works that are there at the start.
package agentevents
