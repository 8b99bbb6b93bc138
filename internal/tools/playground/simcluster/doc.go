// Package simcluster is one member cluster in one process: a real API server with its storage, the workload
// controllers of kube-controller-manager, kube-scheduler, and nodes whose kubelets are simulated, so that pods are
// scheduled, run, become ready, get addresses, finish and go away, and only their containers are missing. Packages kubelet and usage
// answer for these.
//
// In: a data directory and plain values.
// Out: a serving API server, a kubeconfig file, and Node objects.
// Owns: the data directory with the certificates of the kubelets, the nodes named after the cluster, the StorageClass "simulated" and its volumes, the devices of
// the nodes and their class.
// Never: uses a control plane. Joining happens from outside, as with any cluster.
//
// It is made for one per process: upstream keeps feature gates, metrics and klog per process.
package simcluster
