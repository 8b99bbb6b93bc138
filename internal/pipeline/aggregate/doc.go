// Package aggregate folds the Works of a binding into the binding's status, and that into the status of its template.
//
// In: Works, bindings and templates, and the interpreter for what the statuses of several copies add up to.
//
// Out: status.aggregatedStatus of bindings, and the status of templates; an annotation on bindings whose kind users have customized.
//
// Owns: the condition FullyApplied of bindings; the status of templates on the control plane, which has no other writer.
//
// Never: writes a status that is there already, or one for each Work where one for all is enough.
package aggregate
