// Package render turns one binding into one Work per target cluster.
//
// In: ResourceBindings and ClusterResourceBindings that have been scheduled, their templates, the override policies, and
// the Clusters that overrides select by label or field.
//
// Out: Works of bindings: spec, labels, annotations and finalizer; their deletion when no target needs them any more and every new
// target has a healthy copy. For an exclusive binding nothing is written while a Work is left in another cluster. The finalizer of a binding is removed when its last Work is gone, or if the binding would be created
// again.
//
// Owns: Works with the keys of a binding, see api/work/v1alpha2/works.go; the condition Rendered of a binding, which exists only
// while an override cannot be applied, the object cannot be converted to a version that a cluster serves, a Work is refused, or the
// binding names an object that must not be propagated; the field manager "flagship-render".
//
// Never: chooses clusters, writes to members, changes a Work that was not made for a binding, writes a Work that does not change, or
// propagates another object than the binding's template, or an ownership key that a user wrote on it.
package render
