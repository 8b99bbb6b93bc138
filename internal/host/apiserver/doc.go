// Package apiserver runs a real kube-apiserver and its storage inside this process. It assembles the packages below it.
//
// In: a data directory and plain values; for a hub also the kinds of package api and a way to reach the API servers of members.
// Out: a running API server: every built-in kind, custom resources, and on a hub the kinds of the control plane.
// Owns: the data directory; the order in which parts start and end.
// Never: interprets the objects of our kinds, or connects to a member except for a request to clusters/NAME/proxy.
//
// Upstream keeps feature gates, metrics and klog per process: run one server per process, or one after the other. Upstream also
// ends the process (klog.Fatal) when one of its start hooks fails.
package apiserver
