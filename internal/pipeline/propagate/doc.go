// Package propagate is the first verb: it decides which policy, if any, a template belongs to, marks the template as claimed, and
// keeps the binding that says so. It also attaches what a template depends on.
//
// In: templates, propagation policies, override policies as far as a policy
// waits for them, clusters, and the interpreter for replicas and dependencies.
//
// Out: claim labels and annotations on templates; bindings: their metadata and all of spec but the targets; attached bindings and
// their requiredBy; the deletion of bindings whose template is gone.
//
// Owns: the claim keys on templates and bindings, the depended-by labels and the
// dependencies annotation of bindings, the end of propagation policies' finalizers.
//
// Never: writes spec.clusters or spec.gracefulEvictionTasks, but for what a binding had before it was deleted and is created again,
// or removes a binding because its policy went.
package propagate
