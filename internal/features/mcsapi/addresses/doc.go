// Package addresses writes the addresses and the status of ServiceImports in members.
package addresses
