// Package propagate is the first stage: it finds the policy of a template, marks the template as claimed by it, and writes the binding.
// It also propagates the dependencies of a template.
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
// Never: writes spec.clusters or spec.gracefulEvictionTasks, except for the values that a binding had before it was deleted and is created
// again, or deletes a binding because its policy is deleted.
package propagate
