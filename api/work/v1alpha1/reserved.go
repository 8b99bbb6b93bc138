package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReservedNamespace returns whether a namespace belongs to the control plane or to Kubernetes itself. Nothing in it is propagated,
// exported or imported.
func ReservedNamespace(name string) bool {
	switch name {
	case "karmada-system", "karmada-cluster", "flagship-system":
		return true
	}
	return strings.HasPrefix(name, executionNamespacePrefix) || strings.HasPrefix(name, "kube-")
}

// ReservedService returns whether a Service stays in its cluster: one in a reserved namespace, or that of the API server.
func ReservedService(namespace, name string) bool {
	return ReservedNamespace(namespace) || namespace == metav1.NamespaceDefault && name == "kubernetes"
}
