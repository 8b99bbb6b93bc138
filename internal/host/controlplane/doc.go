// Package hub builds and runs the control plane: one page where every loop is constructed, with what it may use handed to
// it. Flags have become plain values before they get here; what a loop does is in its own room.
package controlplane
