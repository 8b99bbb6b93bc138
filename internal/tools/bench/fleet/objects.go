package fleet

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Namespace is where the bench works, on the hub and in members.
const Namespace = "bench"

var (
	Policies = schema.GroupVersionResource{Group: "policy.karmada.io", Version: "v1alpha1", Resource: "propagationpolicies"}
	works    = schema.GroupVersionResource{Group: "work.karmada.io", Version: "v1alpha1", Resource: "works"}
)

func Deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name:  "app",
					Image: "nginx:1.27",
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
					Env:   []corev1.EnvVar{{Name: "MODE", Value: "bench"}},
				}}},
			},
		},
	}
}

func ConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace, Labels: map[string]string{"bench": "configmap"}},
		Data:       map[string]string{"key": "value", "name": name},
	}
}

// Duplicated is a policy that sends what its one selector selects to every cluster.
func Duplicated(name string, selector map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": Policies.GroupVersion().String(),
		"kind":       "PropagationPolicy",
		"metadata":   map[string]any{"name": name, "namespace": Namespace},
		"spec": map[string]any{
			"resourceSelectors": []any{selector},
			"placement": map[string]any{
				"replicaScheduling": map[string]any{"replicaSchedulingType": "Duplicated"},
			},
		},
	}}
}

func SelectDeployment(name string) map[string]any {
	return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
}

func SelectConfigMaps() map[string]any {
	return map[string]any{
		"apiVersion":    "v1",
		"kind":          "ConfigMap",
		"labelSelector": map[string]any{"matchLabels": map[string]any{"bench": "configmap"}},
	}
}

func DeploymentName(i int) string { return fmt.Sprintf("app-%04d", i) }
func ConfigMapName(i int) string  { return fmt.Sprintf("config-%04d", i) }
