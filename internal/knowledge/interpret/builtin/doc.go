// Package builtin knows the kinds that every Kubernetes cluster serves, and the
// conventions that most other kinds follow.
//
// In: objects as they were read from an API server.
//
// Out: answers to every operation of package interpret. For a kind that has no
// row in the table there are three answers: its whole status is reflected, its
// health is read from the usual conditions and generations, and server-set
// metadata and the status are pruned.
//
// Owns: the table in table.go, and the condition StatusCurrent on templates.
//
// Never: adds a rule for a kind of a third party; those are customizations.
package builtin
