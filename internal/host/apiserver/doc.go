// Package apiserver runs a real kube-apiserver and its storage inside this process.
//
// In: a data directory and plain values; for the hub also the kinds of package api and a way to reach
// the API server of a member.
// Out: a serving API server: every built-in kind, custom resources, and on the hub the kinds of the
// control plane, with Cluster as a native group.
// Owns: the data directory (etcd, keys, lock), the CustomResourceDefinitions of our kinds, the
// certificates and their renewal, the defaults and system namespaces of a fresh server, and the
// built-in controllers an API server without kube-controller-manager lacks.
// Never: looks at what the objects of our kinds mean, or calls a member except on behalf of a user
// who asked for it through clusters/NAME/proxy.
//
// Upstream keeps feature gates, metrics and klog per process: run one server per process, or one
// after the other. Upstream also ends the process (klog.Fatal) when one of its start hooks fails.
package apiserver
