// Package membership has what a person does once to a member: joining, leaving, taints, the release of the brake.
package membership
