// Package v1alpha1 holds the ways in which users teach the control plane what a
// kind means: ResourceInterpreterCustomization with scripts,
// ResourceInterpreterWebhookConfiguration with a service of their own, and
// ResourceInterpreterContext, the message exchanged with such a service.
//
// +kubebuilder:object:generate=true
// +groupName=config.karmada.io
package v1alpha1
