// Package history has what a revision of a template is made of: its state, the difference between two states, who made it, and the form in
// which it is stored, which only the control plane can read and write. It is pure.
package history
