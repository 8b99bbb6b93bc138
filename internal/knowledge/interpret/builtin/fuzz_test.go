package builtin_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

// FuzzInterpret calls every operation on an object that a user or a member may have made of anything. No answer changes the
// object or makes another one of it, and what it depends on is in its namespace.
func FuzzInterpret(f *testing.F) {
	for _, text := range []string{
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: shop}, spec: {replicas: 2, template: {spec: {serviceAccountName: s, containers: [{name: c, resources: {requests: {cpu: 1}}, env: [{name: e, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]}}}, status: {readyReplicas: 1, conditions: [{type: Available, status: 'True'}]}}",
		"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, namespace: shop}, spec: {volumeClaimTemplates: [{metadata: {name: data}}], template: {spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}}}",
		"{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: shop}, spec: {completions: 4, parallelism: 2, template: {spec: {restartPolicy: Never}}}, status: {succeeded: 1}}",
		"{apiVersion: batch/v1, kind: CronJob, metadata: {name: a, namespace: shop}, spec: {jobTemplate: {spec: {template: {spec: {}}}}}}",
		"{apiVersion: v1, kind: Service, metadata: {name: a, namespace: shop, managedFields: [{manager: m, fieldsV1: {'f:spec': {}}}]}, spec: {type: LoadBalancer, clusterIP: 10.0.0.1, ports: [{port: 80, nodePort: 30000}]}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}",
		"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a, namespace: shop}, spec: {tls: [{secretName: s}], defaultBackend: {resource: {kind: Namespace, name: n}}, rules: [{http: {paths: [{backend: {service: {name: w}}}]}}]}}",
		"{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}, spec: {nodeName: n, resourceClaims: [{name: r, resourceClaimName: c}], containers: [{name: c}]}, status: {phase: Running}}",
		"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a, namespace: shop}, spec: {volumeName: v}, status: {phase: Bound}}",
		"{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a, namespace: shop}, status: {currentHealthy: 1}}",
		"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a, namespace: shop}, status: {currentReplicas: 1}}",
		"{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, metadata: {name: a, namespace: shop}}",
		"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a.b}, status: {conditions: [{type: Established, status: 'True'}]}}",
	} {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, []byte(`{"readyReplicas": 1, "conditions": [{"type": "Available", "status": "False"}]}`), int64(3))
	}
	f.Fuzz(func(t *testing.T, data, status []byte, replicas int64) {
		content := map[string]any{}
		if utiljson.Unmarshal(data, &content) != nil {
			return
		}
		obj := &unstructured.Unstructured{Object: content}
		if obj.GetKind() == "" || obj.GetAPIVersion() == "" {
			return
		}
		before := obj.DeepCopy()
		bounded.Run(t, func() { interpretAll(t, obj, status, replicas) })
		if diff := cmp.Diff(before.Object, obj.Object); diff != "" {
			t.Fatalf("the object was changed (-before +after):\n%s", diff)
		}
	})
}

// interpretAll ignores errors: an object may be wrong in any way.
func interpretAll(t *testing.T, obj *unstructured.Unstructured, status []byte, replicas int64) {
	t.Helper()
	i := newInterpreter()
	ctx := context.Background()
	_, _ = i.Replicas(ctx, obj)
	_, _ = i.Components(ctx, obj)
	_, _ = i.Health(ctx, obj)
	_, _ = i.Reflect(ctx, obj)
	dependencies, _ := i.Dependencies(ctx, obj)
	for _, d := range dependencies {
		if d.Namespace != obj.GetNamespace() || d.Name == "" && d.LabelSelector == nil {
			t.Fatalf("an object of namespace %q depends on %+v", obj.GetNamespace(), d)
		}
	}
	made := []*unstructured.Unstructured{}
	if revised, err := i.Revise(ctx, obj, int32(replicas)); err == nil {
		made = append(made, revised)
	}
	observed := obj.DeepCopy()
	_ = utiljson.Unmarshal(status, &observed.Object)
	if retained, err := i.Retain(ctx, obj, observed); err == nil {
		made = append(made, retained)
	}
	items := []workv1alpha2.AggregatedStatusItem{
		{ClusterName: "a", Applied: true, Health: workv1alpha2.ResourceHealthy, Status: &runtime.RawExtension{Raw: status}}, {ClusterName: "b"},
	}
	if aggregated, err := i.Aggregate(ctx, obj, items); err == nil {
		made = append(made, aggregated)
	}
	pruned := obj.DeepCopy()
	i.Prune(pruned, obj)
	for _, m := range append(made, pruned) {
		if m.GroupVersionKind() != obj.GroupVersionKind() || m.GetNamespace() != obj.GetNamespace() || m.GetName() != obj.GetName() {
			t.Fatalf("%s %s/%s became %s %s/%s", obj.GroupVersionKind(), obj.GetNamespace(), obj.GetName(),
				m.GroupVersionKind(), m.GetNamespace(), m.GetName())
		}
	}
}
