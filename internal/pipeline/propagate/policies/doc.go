// Package policies finds the templates that a change of a propagation policy concerns, and ends a policy that is deleted when no
// template is claimed by it any more. It writes to no template: package propagate reconciles those that it enqueues.
package policies
