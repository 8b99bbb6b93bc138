package compose

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

const nginx = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx
  namespace: default
  uid: template-uid
  generation: 3
  resourceVersion: "77"
  labels: {app: nginx, propagationpolicy.karmada.io/permanent-id: policy-id}
  annotations: {note: "keep me"}
  finalizers: [some/finalizer]
  managedFields: [{manager: kubectl}]
spec:
  replicas: 5
  template: {spec: {containers: [{name: nginx, image: "nginx:1.27"}]}}
status: {readyReplicas: 5}
`

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	converted, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(converted); err != nil {
		t.Fatal(err)
	}
	return obj
}

// replicasOnly stands in for the interpreter: it supports spec.replicas and server-set metadata.
type replicasOnly struct{}

func (replicasOnly) Revise(_ context.Context, obj *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error) {
	revised := obj.DeepCopy()
	return revised, unstructured.SetNestedField(revised.Object, int64(replicas), "spec", "replicas")
}

func (replicasOnly) Prune(obj, _ *unstructured.Unstructured) {
	delete(obj.Object, "status")
	metadata := obj.Object["metadata"].(map[string]any)
	for _, field := range []string{"uid", "generation", "resourceVersion", "finalizers", "managedFields"} {
		delete(metadata, field)
	}
	ports, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", "ports")
	list, _ := ports.([]any)
	for _, port := range list {
		delete(port.(map[string]any), "nodePort")
	}
}

func targets(names ...string) []workv1alpha2.TargetCluster {
	out := make([]workv1alpha2.TargetCluster, 0, len(names))
	for i, name := range names {
		out = append(out, workv1alpha2.TargetCluster{Name: name, Replicas: int32(i + 2)})
	}
	return out
}

// nginxBinding is scheduled to the named clusters, with 2, 3, ... replicas.
func nginxBinding(clusters ...string) *workv1alpha2.ResourceBinding {
	binding := &workv1alpha2.ResourceBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "nginx-deployment", UID: "binding-uid", Generation: 2,
			Labels:     map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: "binding-id"},
			Finalizers: []string{"other/finalizer", workv1alpha2.ResourceBindingFinalizer},
		},
		Spec: workv1alpha2.ResourceBindingSpec{
			Resource: workv1alpha2.ObjectReference{
				APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "nginx", UID: "template-uid"},
			Clusters: targets(clusters...),
			Placement: &policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
				ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided}},
		},
		Status: workv1alpha2.ResourceBindingStatus{SchedulerObservedGeneration: 2},
	}
	for _, t := range binding.Spec.Clusters {
		binding.Spec.Replicas += t.Replicas
	}
	return binding
}

func cluster(name string, labels map[string]string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func manifestOf(t *testing.T, work *workv1alpha1.Work) *unstructured.Unstructured {
	t.Helper()
	if n := len(work.Spec.Workload.Manifests); n != 1 {
		t.Fatalf("the Work has %d manifests, want 1", n)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
		t.Fatal(err)
	}
	return obj
}
