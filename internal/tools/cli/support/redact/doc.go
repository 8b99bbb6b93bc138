// Package redact takes out of objects and texts what may be secret. Of objects it keeps what is listed, and of everything else only the
// shape: a list of what is secret would never be complete.
package redact
