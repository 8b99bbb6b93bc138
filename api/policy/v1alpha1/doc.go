// Package v1alpha1 holds the kinds with which users say where their objects go
// (PropagationPolicy), how they differ per cluster (OverridePolicy), how much a
// namespace may use of the fleet (FederatedResourceQuota) and when clusters are
// tainted (ClusterTaintPolicy).
//
// Every policy that exists once per namespace and once for the whole fleet is a
// pair of twins: the interfaces Propagation and Override let one code path serve both.
//
// +kubebuilder:object:generate=true
// +groupName=policy.karmada.io
package v1alpha1
