// Package bindings has what a binding of a template is: its names, its owner, and the parts of its spec that follow from the template
// and from the policy.
package bindings
