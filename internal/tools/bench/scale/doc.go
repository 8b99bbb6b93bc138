// Package scale measures a control plane with hundreds of members, which are stand-ins: joining, rest, placements, members that hang
// or are gone, a restart, and a restart with many agents. Times come from the stand-ins and from watches, CPU and memory from /proc,
// numbers of requests from the counters of both sides; nothing is measured inside the control plane.
package scale
