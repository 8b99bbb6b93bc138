// Package builtin interprets the kinds that every Kubernetes cluster serves, and other kinds by the conventions that most follow.
//
// In: objects as they were read from an API server.
//
// Out: every operation of package interpret. A kind that has no row in the table has three operations: its whole status is
// reflected, its health is read from the usual conditions and generations, and server-set metadata and the status are pruned.
//
// Owns: the table in table.go. The rules are here (replicas, requirements, health, reflection) and in the sub-packages aggregate,
// retain and dependencies.
//
// Never: adds a rule for a kind of a third party; those are customizations.
package builtin
