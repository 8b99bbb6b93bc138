package v1alpha1

import (
	"fmt"
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
	return strings.HasPrefix(name, executionNamespacePrefix) || NamespaceOfKubernetes(name)
}

// PropagateAnnotation with the value "true" on an object in a namespace kube-* lets policies send it to members. It is on the object, and
// not on the namespace, since Kubernetes keeps objects there that must not leave their cluster.
const PropagateAnnotation = "flagship.io/propagate"

// NamespaceOfKubernetes returns whether a namespace is one that every cluster has of its own, for what is its own.
func NamespaceOfKubernetes(name string) bool { return strings.HasPrefix(name, "kube-") }

// StaysIn is the text for users about an object in a namespace of Kubernetes.
func StaysIn(namespace string) string {
	return fmt.Sprintf("it stays on the control plane: of namespace %s, policies send only objects with the annotation %s=true to members", namespace, PropagateAnnotation)
}

// ReservedService returns whether a Service stays in its cluster: one in a reserved namespace, or that of the API server.
func ReservedService(namespace, name string) bool {
	return ReservedNamespace(namespace) || namespace == metav1.NamespaceDefault && name == "kubernetes"
}
