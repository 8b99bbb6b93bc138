// Package compose makes Works: from a binding, its template, the override policies and a cluster. It is pure, apart from what the
// interpreter and the conversion read.
package compose
