// Package cli is what a person types: commands, flags and printers. It parses, calls one room and prints; it decides nothing.
//
// Tables fit a terminal; -o json|yaml is there where a script would want it; the last line of an error says what to do next.
package cli
