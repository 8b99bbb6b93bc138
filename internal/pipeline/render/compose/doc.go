// Package compose makes the Works of a binding from its template, the override policies and the clusters. It is pure, except for calls
// of the interpreter and the conversion.
package compose
