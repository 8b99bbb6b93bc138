// Package v1alpha1 holds the configuration files of the server and the agent. No API server serves these kinds.
//
// +kubebuilder:object:generate=true
// +groupName=configuration.flagship.io
package v1alpha1
