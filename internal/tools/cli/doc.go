// Package cli is what commands share: streams, exit codes, the way to the control plane, tables. The commands are in its folders.
//
// A command parses, calls one package and prints; it decides nothing. Tables fit a terminal; -o json|yaml is there where a script
// needs it; the last line of an error is what to do next.
package cli
