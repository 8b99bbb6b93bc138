// Package render turns one binding into one Work per target cluster.
//
// In: ResourceBindings and ClusterResourceBindings that have been scheduled, their templates, the override policies, and
// the Clusters that overrides select by label or field.
//
// Out: Works of bindings: spec, labels, annotations and finalizer; their deletion when no target needs them any more and every new
// target has a healthy copy. The finalizer of a binding is removed when its last Work is gone, or if the binding would be created
// again.
//
// Owns: Works with the keys of a binding, see api/work/v1alpha2/works.go; the condition Rendered of a binding, which exists only
// while an override cannot be applied, a cluster cannot be given the object in a version that it serves, a Work is refused, or the
// binding names what it must not carry; the field manager "flagship-render".
//
// Never: chooses clusters, writes to members, changes a Work that no binding made, writes what is there already, or carries another
// object than the binding's template, or an ownership key that a user wrote on it.
package render
