// Package aggregate computes the status of a binding from its Works, and the status of the template from that.
//
// In: Works, bindings and templates, the mode of clusters, and the interpreter, which aggregates the statuses of several copies.
//
// Out: status.aggregatedStatus of bindings, and the status of templates; an annotation on bindings whose kind users have customized.
//
// Owns: the condition FullyApplied of bindings; the status of templates on the control plane, which has no other writer.
//
// Never: writes a status that does not change, or one for each Work where one for all is enough.
package aggregate
