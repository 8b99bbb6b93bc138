// Package bindings makes the binding of a template: its name, its owner, and the parts of its spec that follow from the template and
// from the policy.
package bindings
