// Package render turns one binding into one Work per target cluster.
//
// In: ResourceBindings and ClusterResourceBindings that have been scheduled, their templates, the override policies, and
// the Clusters that overrides select by label or field.
//
// Out: Works of bindings: spec, labels, annotations and finalizer; their deletion when nobody wants them any more. The
// finalizer of a binding is removed when its last Work is gone.
//
// Owns: the condition Rendered of a binding, which exists only while an override cannot be applied or a cluster
// cannot be given the object in a version that it serves; the field manager
// "flagship-render".
//
// Never: chooses clusters, writes to members, touches a Work that no binding made, or writes what is there already.
package render
