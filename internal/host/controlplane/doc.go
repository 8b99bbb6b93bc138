// Package controlplane builds and runs the control plane: loops.go is the one page where every loop is constructed, with what it may
// use passed to it. Flags have become plain values before they get here; what a loop does is in its own package.
package controlplane
