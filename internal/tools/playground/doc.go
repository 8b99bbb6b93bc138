// Package playground runs a whole fleet on one machine: the control plane in this process and every
// member cluster in a child process of the same binary.
//
// In: a data directory and plain values; how to start a hub and how to join a member are functions passed in.
// Out: running member processes, kubeconfig files, logs, and the spec with what was chosen (ports, ranges)
// so that the same directory comes up as the same fleet.
// Owns: the data directory's top level: its lock, playground.json, *.kubeconfig, logs and the control socket.
// Never: writes an object to a cluster; joining is what the caller's function does.
//
// Killing or pausing a member process is the outage that failover demos and tests need, so a member that
// ended is reported and left alone. The other way round nothing survives its parent: see process.go.
//
// The package does not link the API server; package simcluster does, for the child.
package playground
