// Package hub builds and runs the control plane: one page where every loop is constructed, with what it may use handed to
// it. Flags are parsed before into plain values; what a loop does is in its own package.
package controlplane
