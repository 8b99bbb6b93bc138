// Package namespaces sends the namespaces of the control plane to every cluster, in one Work for each.
//
// In: the metadata of namespaces, Clusters, cluster-wide override policies.
//
// Out: Works that carry namespaces, and their deletion when the namespace is gone.
//
// Owns: Works that carry a namespace, as long as no binding has them; the annotation namespace.karmada.io/name of all of them. Who
// owns which Work is in api/work/v1alpha2/works.go.
//
// Never: deletes the Work of a namespace that still exists, or changes more of a member's namespace than labels and annotations.
package namespaces
