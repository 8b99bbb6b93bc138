// Package content finds out whether the content of a template changed since its binding was made.
package content
