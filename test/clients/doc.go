// Package clients runs clients in wide use against a control plane with two members: Helm 3 and 4, kstatus, with
// which Flux waits, controller-runtime, and the code of kubectl rollout.
//
// They are the real libraries, and what they wait for has to happen. Their dependencies belong to them only, which is why this is a
// module of its own.
package clients
