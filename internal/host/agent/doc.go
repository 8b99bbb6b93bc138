// Package agent runs the part of the pipeline that writes to a member in a process of its own, beside that member: for clusters in Pull
// mode, which the control plane does not dial.
//
// It has the same stages as the control plane: apply and observe, and the loops of clusterstatus, mcs and mcsapi that need a connection to
// the member. It reads the Works of its cluster and writes their status, Works with what its member provides and exports, the status of its
// Cluster and its Lease, and nothing else: packages authorization and admission bound it. Requests of the control plane to the member come
// through a tunnel that it opens.
package agent
