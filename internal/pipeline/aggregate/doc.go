// Package aggregate brings the news home: it folds the Works of a binding into
// the binding's status and that into the template's own.
//
// In: Works, bindings and templates, and the interpreter for what the statuses
// of several copies add up to.
//
// Out: status.aggregatedStatus of bindings, and the status of templates; of
// bindings whose kind users have described also one annotation.
//
// Owns: the condition FullyApplied of bindings; the status of templates on the
// hub, which has no other writer.
//
// Never: writes a status that is there already, or one per Work where one for
// all will do.
package aggregate
