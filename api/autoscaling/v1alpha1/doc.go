// Package v1alpha1 holds autoscalers that look at all copies of a workload
// together: by metrics (FederatedHPA) and by the clock (CronFederatedHPA).
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.karmada.io
package v1alpha1
