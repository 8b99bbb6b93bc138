// Package retain divides the fields of built-in kinds between control plane and member: which of the member's are kept when an
// object is applied (Retain), and which of the control plane's never leave it (Prune).
package retain
