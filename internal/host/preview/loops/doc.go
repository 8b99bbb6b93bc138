// Package loops runs loops of the control plane without their managers, one request after the other.
package loops
