// Package policy decides which PropagationPolicy or ClusterPropagationPolicy a template belongs to. It compares priorities, scopes
// and selectors, and returns why each other policy lost. Clients of the control plane and the claims on templates are the caller's
// business, but for the labels and annotations that a claim consists of.
package policy
