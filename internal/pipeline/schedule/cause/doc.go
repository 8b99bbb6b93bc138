// Package cause has why a binding has to be scheduled.
package cause
