// Package policy decides which PropagationPolicy or ClusterPropagationPolicy a template belongs to. It compares priorities, scopes
// and selectors, and returns why each other policy lost. It defines the labels and
// annotations of a claim, and leaves reading and writing to the caller.
package policy
