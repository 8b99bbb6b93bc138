// Package agent runs the part of the pipeline that writes to a member in a process of its own, beside that member: for clusters in Pull
// mode, which the control plane does not dial.
//
// It has the same stages as the control plane: apply and observe, and the loop of clusterstatus. It reads the Works of its cluster and
// writes their status, the status of its Cluster and its Lease, and nothing else: package authorization bounds it.
package agent
