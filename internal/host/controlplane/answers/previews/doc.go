// Package previews gathers what a Preview is made of.
//
// In: a change; the caches of the control plane and the stages that decide; dry runs in the control plane and in members, as the author.
// Out: the status of a Preview.
// Owns: nothing.
// Never: writes, or puts into an answer what its author may not get.
package previews
