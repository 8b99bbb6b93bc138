// Package builtin runs, inside the hub, the controllers without which an API server is not a cluster.
//
// In: objects of the hub, by its own informers.
// Out: what the same controllers of kube-controller-manager do: deleted namespaces emptied, dependents of
// deleted owners deleted, the ServiceAccount default and the ConfigMap kube-root-ca.crt in each namespace, tokens filled into
// service account Secrets, aggregated ClusterRoles, client certificates for approved requests, old requests removed, types in
// ValidatingAdmissionPolicies checked; if bootstrap tokens are enabled, these signed and ended.
// Owns: the namespace finalizer "kubernetes".
// Never: runs a template: no controller of workloads, endpoints, nodes or volumes is here.
package builtin
