package thirdparty_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/thirdparty"
)

func interpreter(t *testing.T) *interpret.Chained {
	t.Helper()
	layer, err := thirdparty.New()
	if err != nil {
		t.Fatal(err)
	}
	return interpret.Chain(layer)
}

// object reads an object of the kind "<group>/<version>/<Kind>".
func object(t *testing.T, kind, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("reading %q: %v", text, err)
	}
	obj := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &obj.Object); err != nil {
		t.Fatalf("reading %q: %v", text, err)
	}
	parts := strings.Split(kind, "/")
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: parts[0], Version: parts[1], Kind: parts[2]})
	obj.SetNamespace("shop")
	obj.SetName("x")
	return obj
}

func TestScriptsCompile(t *testing.T) {
	customizations, err := thirdparty.Customizations()
	if err != nil {
		t.Fatal(err)
	}
	chain := interpreter(t)
	for _, customization := range customizations {
		t.Run(customization.Name, func(t *testing.T) {
			if errs := declarative.Check(customization); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
			target := customization.Spec.Target
			kind := schema.FromAPIVersionAndKind(target.APIVersion, target.Kind)
			for _, operation := range []configv1alpha1.InterpreterOperation{"InterpretHealth", "InterpretStatus", "AggregateStatus"} {
				if !chain.Supports(kind, operation) {
					t.Errorf("%s is not there", operation)
				}
			}
		})
	}
}

// TestScriptsAcceptEmptyObjects calls every script with objects that have only
// what their schemas demand, and no status.
func TestScriptsAcceptEmptyObjects(t *testing.T) {
	customizations, err := thirdparty.Customizations()
	if err != nil {
		t.Fatal(err)
	}
	chain, ctx := interpreter(t), context.Background()
	for _, customization := range customizations {
		t.Run(customization.Name, func(t *testing.T) {
			target := customization.Spec.Target
			kind := schema.FromAPIVersionAndKind(target.APIVersion, target.Kind)
			const template = "{spec: {containers: []}}"
			obj := object(t, kind.Group+"/"+kind.Version+"/"+kind.Kind, "{metadata: {generation: 1}, spec: {template: "+template+
				", headGroupSpec: {template: "+template+"}, rayClusterConfig: {headGroupSpec: {template: "+template+"}}}}")
			if _, err := chain.Replicas(ctx, obj); err != nil {
				t.Error(err)
			}
			if _, err := chain.Components(ctx, obj); err != nil {
				t.Error(err)
			}
			if _, err := chain.Revise(ctx, obj, 3); err != nil {
				t.Error(err)
			}
			if _, err := chain.Dependencies(ctx, obj); err != nil {
				t.Error(err)
			}
			if _, err := chain.Health(ctx, obj); err != nil {
				t.Error(err)
			}
			if status, err := chain.Reflect(ctx, obj); err != nil || status != nil {
				t.Errorf("got status %v, %v; want none", status, err)
			}
			for _, items := range [][]workv1alpha2.AggregatedStatusItem{nil, {{ClusterName: "m1"}}} {
				result, err := chain.Aggregate(ctx, obj, items)
				if err != nil {
					t.Fatal(err)
				}
				if again, err := chain.Aggregate(ctx, result, items); err != nil || again != result {
					t.Errorf("aggregating again gave another object: %v, %v", err, cmp.Diff(result, again))
				}
			}
		})
	}
}

func TestHealth(t *testing.T) {
	const ready = "status: {observedGeneration: 2, conditions: [{type: Ready, status: 'True'}]}"
	tests := map[string]struct {
		kind, object string
		healthy      bool
	}{
		"clone set rolled out":      {"apps.kruise.io/v1alpha1/CloneSet", "{metadata: {generation: 2}, spec: {replicas: 2}, status: {observedGeneration: 2, updatedReplicas: 2, availableReplicas: 2}}", true},
		"clone set rolling":         {"apps.kruise.io/v1alpha1/CloneSet", "{metadata: {generation: 2}, spec: {replicas: 2}, status: {observedGeneration: 2, updatedReplicas: 1, availableReplicas: 2}}", false},
		"clone set not observed":    {"apps.kruise.io/v1alpha1/CloneSet", "{metadata: {generation: 2}, spec: {replicas: 0}, status: {observedGeneration: 1}}", false},
		"stateful set unavailable":  {"apps.kruise.io/v1beta1/StatefulSet", "{metadata: {generation: 1}, spec: {}, status: {observedGeneration: 1, updatedReplicas: 1}}", false},
		"daemon set rolled out":     {"apps.kruise.io/v1alpha1/DaemonSet", "{metadata: {generation: 1}, status: {observedGeneration: 1, desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2}}", true},
		"sidecar set behind":        {"apps.kruise.io/v1alpha1/SidecarSet", "{metadata: {generation: 1}, status: {observedGeneration: 1, matchedPods: 3, updatedPods: 2, readyPods: 3}}", false},
		"united deployment":         {"apps.kruise.io/v1alpha1/UnitedDeployment", "{metadata: {generation: 1}, spec: {replicas: 2}, status: {observedGeneration: 1, updatedReplicas: 2, updatedReadyReplicas: 2}}", true},
		"broadcast job failed":      {"apps.kruise.io/v1alpha1/BroadcastJob", "{status: {phase: failed}}", false},
		"workflow running":          {"argoproj.io/v1alpha1/Workflow", "{status: {phase: Running}}", true},
		"workflow failed":           {"argoproj.io/v1alpha1/Workflow", "{status: {phase: Error}}", false},
		"volcano job running":       {"batch.volcano.sh/v1alpha1/Job", "{status: {state: {phase: Running}}}", true},
		"volcano job aborted":       {"batch.volcano.sh/v1alpha1/Job", "{status: {state: {phase: Aborted}}}", false},
		"flink running":             {"flink.apache.org/v1beta1/FlinkDeployment", "{status: {jobManagerDeploymentStatus: READY, jobStatus: {state: RUNNING}}}", true},
		"flink failed":              {"flink.apache.org/v1beta1/FlinkDeployment", "{status: {jobManagerDeploymentStatus: READY, jobStatus: {state: FAILED}}}", false},
		"helm release ready":        {"helm.toolkit.fluxcd.io/v2/HelmRelease", "{metadata: {generation: 2}, " + ready + "}", true},
		"helm release behind":       {"helm.toolkit.fluxcd.io/v2beta1/HelmRelease", "{metadata: {generation: 3}, " + ready + "}", false},
		"kustomization stalled":     {"kustomize.toolkit.fluxcd.io/v1/Kustomization", "{metadata: {generation: 2}, status: {observedGeneration: 2, conditions: [{type: Ready, status: 'True'}, {type: Stalled, status: 'True'}]}}", false},
		"git repository not ready":  {"source.toolkit.fluxcd.io/v1/GitRepository", "{metadata: {generation: 2}, status: {observedGeneration: 2, conditions: [{type: Ready, status: 'False'}]}}", false},
		"helm repository of images": {"source.toolkit.fluxcd.io/v1/HelmRepository", "{metadata: {generation: 2}, spec: {type: oci}}", true},
		"training failed":           {"kubeflow.org/v1/PyTorchJob", "{status: {conditions: [{type: Failed, status: 'True'}]}}", false},
		"training running":          {"kubeflow.org/v1/TFJob", "{status: {conditions: [{type: Running, status: 'True'}]}}", true},
		"notebook ready":            {"kubeflow.org/v1/Notebook", "{status: {readyReplicas: 1}}", true},
		"policy ready":              {"kyverno.io/v1/ClusterPolicy", "{" + ready + "}", true},
		"policy not ready":          {"kyverno.io/v1/Policy", "{status: {ready: true, conditions: [{type: Ready, status: 'False'}]}}", false},
		"ray cluster ready":         {"ray.io/v1/RayCluster", "{status: {state: ready}}", true},
		"ray job failed":            {"ray.io/v1/RayJob", "{status: {jobStatus: FAILED}}", false},
		"ray service running":       {"ray.io/v1/RayService", "{metadata: {generation: 1}, status: {observedGeneration: 1, serviceStatus: Running}}", true},
		"spark completed":           {"sparkoperator.k8s.io/v1beta2/SparkApplication", "{status: {applicationState: {state: COMPLETED}}}", true},
		"spark failed":              {"sparkoperator.k8s.io/v1beta2/SparkApplication", "{status: {applicationState: {state: SUBMISSION_FAILED}}}", false},
	}
	chain := interpreter(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			want := workv1alpha2.ResourceUnhealthy
			if tc.healthy {
				want = workv1alpha2.ResourceHealthy
			}
			if got, err := chain.Health(context.Background(), object(t, tc.kind, tc.object)); err != nil || got != want {
				t.Errorf("got %s, %v; want %s", got, err, want)
			}
		})
	}
}

func TestAggregate(t *testing.T) {
	tests := map[string]struct{ kind, template, m1, m2, want string }{
		"clone set": {
			"apps.kruise.io/v1alpha1/CloneSet", "{metadata: {generation: 3}, spec: {}}",
			"{replicas: 1, readyReplicas: 1, updatedReplicas: 1, availableReplicas: 1, observedGeneration: 1, generation: 1, resourceTemplateGeneration: 3, updateRevision: a}",
			"{replicas: 2, readyReplicas: 1, observedGeneration: 5, generation: 5, resourceTemplateGeneration: 3, updateRevision: b}",
			"{replicas: 3, readyReplicas: 2, updatedReplicas: 1, availableReplicas: 1, updatedReadyReplicas: 0, expectedUpdatedReplicas: 0, observedGeneration: 3, updateRevision: a}",
		},
		"united deployment": {
			"apps.kruise.io/v1alpha1/UnitedDeployment", "{metadata: {generation: 1}, spec: {}}",
			"{replicas: 1, subsetReplicas: {a: 1}}", "{replicas: 3, subsetReplicas: {a: 1, b: 2}}",
			"{replicas: 4, readyReplicas: 0, updatedReplicas: 0, updatedReadyReplicas: 0, subsetReplicas: {a: 2, b: 2}}",
		},
		"flux": {
			"kustomize.toolkit.fluxcd.io/v1/Kustomization", "{metadata: {generation: 1}, spec: {}}",
			"{lastAppliedRevision: r, observedGeneration: 1, generation: 1, resourceTemplateGeneration: 1, conditions: [{type: Ready, status: 'True', reason: Done, message: fine, lastTransitionTime: '2026-01-01T10:00:00Z'}]}",
			"{observedGeneration: 1, generation: 1, resourceTemplateGeneration: 1, conditions: [{type: Ready, status: 'False', reason: Broken, message: bad, lastTransitionTime: '2026-01-01T09:00:00Z'}, {type: Stalled, status: 'True', reason: Broken, lastTransitionTime: '2026-01-01T09:00:00Z'}]}",
			"{lastAppliedRevision: r, observedGeneration: 1, conditions: [" +
				"{type: Ready, status: 'False', reason: Broken, message: 'm1: fine; m2: bad', lastTransitionTime: '2026-01-01T10:00:00Z'}, " +
				"{type: Stalled, status: 'True', reason: Broken, message: '', lastTransitionTime: '2026-01-01T09:00:00Z'}]}",
		},
		"training": {
			"kubeflow.org/v1/PyTorchJob", "{spec: {}}",
			"{startTime: '2026-01-01T10:00:00Z', completionTime: '2026-01-01T11:00:00Z', replicaStatuses: {Worker: {succeeded: 2}}, conditions: [{type: Succeeded, status: 'True', reason: Done}]}",
			"{startTime: '2026-01-01T09:00:00Z', completionTime: '2026-01-01T10:30:00Z', replicaStatuses: {Master: {succeeded: 1}, Worker: {succeeded: 1}}, conditions: [{type: Succeeded, status: 'True', reason: Done}]}",
			"{startTime: '2026-01-01T09:00:00Z', completionTime: '2026-01-01T11:00:00Z', replicaStatuses: {Master: {succeeded: 1}, Worker: {succeeded: 3}}, conditions: [{type: Succeeded, status: 'True', reason: Done, message: ''}]}",
		},
		"workflow": {
			"argoproj.io/v1alpha1/Workflow", "{spec: {}}",
			"{phase: Succeeded, startedAt: '2026-01-01T10:00:00Z', finishedAt: '2026-01-01T11:00:00Z'}", "{phase: Running, startedAt: '2026-01-01T09:00:00Z'}",
			"{phase: Running, startedAt: '2026-01-01T09:00:00Z'}",
		},
		"ray cluster": {
			"ray.io/v1/RayCluster", "{spec: {}}",
			"{state: ready, desiredCPU: '1', desiredWorkerReplicas: 1}", "{state: ready, desiredCPU: 500m, desiredWorkerReplicas: 2}",
			"{state: ready, desiredCPU: 1500m, desiredWorkerReplicas: 3, readyWorkerReplicas: 0, availableWorkerReplicas: 0, minWorkerReplicas: 0, maxWorkerReplicas: 0}",
		},
	}
	chain := interpreter(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var items []workv1alpha2.AggregatedStatusItem
			for cluster, status := range map[string]string{"m1": tc.m1, "m2": tc.m2} {
				data, err := yaml.YAMLToJSON([]byte(status))
				if err != nil {
					t.Fatal(err)
				}
				item := workv1alpha2.AggregatedStatusItem{ClusterName: cluster, Applied: true, Status: &runtime.RawExtension{Raw: data}}
				items = append(items, item)
			}
			if items[0].ClusterName == "m2" {
				items[0], items[1] = items[1], items[0]
			}
			got, err := chain.Aggregate(context.Background(), object(t, tc.kind, tc.template), items)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object(t, tc.kind, tc.want).Object, withMetadata(got.Object["status"], object(t, tc.kind, tc.want))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// withMetadata puts a status where the wanted one stands, next to the same
// metadata.
func withMetadata(status any, like *unstructured.Unstructured) map[string]any {
	result := map[string]any{"apiVersion": like.GetAPIVersion(), "kind": like.GetKind(), "metadata": like.Object["metadata"]}
	fields, _ := status.(map[string]any)
	for key, value := range fields {
		result[key] = value
	}
	return result
}

func TestComponents(t *testing.T) {
	const worker = "{spec: {containers: [{name: a, resources: {requests: {cpu: 2}}}]}}"
	tests := map[string]struct {
		kind, object string
		want         []string
	}{
		"volcano":      {"batch.volcano.sh/v1alpha1/Job", "{spec: {tasks: [{name: a, replicas: 2, template: " + worker + "}, {template: " + worker + "}]}}", []string{"a 2 2", "task-2 1 2"}},
		"volcano gang": {"batch.volcano.sh/v1alpha1/Job", "{spec: {minAvailable: 3, tasks: [{name: a, minAvailable: 2, replicas: 3, template: " + worker + "}, {name: b, minAvailable: 1, replicas: 1, template: " + worker + "}]}}", []string{"a 2 2", "b 1 2"}},
		"flink": {
			"flink.apache.org/v1beta1/FlinkDeployment",
			"{spec: {flinkConfiguration: {taskmanager.numberOfTaskSlots: '2'}, job: {parallelism: 5}, jobManager: {resource: {cpu: 1, memory: 2048m}}, taskManager: {resource: {cpu: 0.5, memory: 2g}}}}",
			[]string{"jobmanager 1 1 2Gi", "taskmanager 3 500m 2Gi"},
		},
		"pytorch": {"kubeflow.org/v1/PyTorchJob", "{spec: {pytorchReplicaSpecs: {Worker: {replicas: 3, template: " + worker + "}, Master: {template: " + worker + "}}}}", []string{"master 1 2", "worker 3 2"}},
		"ray":     {"ray.io/v1/RayCluster", "{spec: {headGroupSpec: {template: " + worker + "}, workerGroupSpecs: [{groupName: small, replicas: 4, template: " + worker + "}]}}", []string{"head 1 2", "small 4 2"}},
		"spark":   {"sparkoperator.k8s.io/v1beta2/SparkApplication", "{spec: {driver: {cores: 1, memory: 512m}, executor: {instances: 2, cores: 1, coreRequest: 100m, memory: 1g}}}", []string{"driver 1 1 512Mi", "executor 2 100m 1Gi"}},
	}
	chain := interpreter(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			components, err := chain.Components(context.Background(), object(t, tc.kind, tc.object))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range components {
				cpu, memory := c.ReplicaRequirements.ResourceRequest["cpu"], c.ReplicaRequirements.ResourceRequest["memory"]
				line := c.Name + " " + string(rune('0'+c.Replicas)) + " " + cpu.String()
				if !memory.IsZero() {
					line += " " + memory.String()
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDependencies(t *testing.T) {
	const pod = "{spec: {serviceAccountName: runner, containers: [], volumes: [{name: v, configMap: {name: files}}, {name: d, persistentVolumeClaim: {claimName: data}}]}}"
	all := []string{"ConfigMap files", "PersistentVolumeClaim data", "ServiceAccount runner"}
	tests := map[string]struct {
		kind, object string
		want         []string
	}{
		"clone set":         {"apps.kruise.io/v1alpha1/CloneSet", "{spec: {template: " + pod + "}}", all},
		"stateful set":      {"apps.kruise.io/v1beta1/StatefulSet", "{spec: {volumeClaimTemplates: [{metadata: {name: data}}], template: " + pod + "}}", []string{"ConfigMap files", "ServiceAccount runner"}},
		"united deployment": {"apps.kruise.io/v1alpha1/UnitedDeployment", "{spec: {template: {cloneSetTemplate: {spec: {template: " + pod + "}}}}}", all},
		"advanced cron job": {"apps.kruise.io/v1alpha1/AdvancedCronJob", "{spec: {template: {broadcastJobTemplate: {spec: {template: " + pod + "}}}}}", all},
		"volcano":           {"batch.volcano.sh/v1alpha1/Job", "{spec: {volumes: [{volumeClaimName: more}, {volumeClaimName: made, volumeClaim: {}}], tasks: [{template: " + pod + "}]}}", []string{"ConfigMap files", "PersistentVolumeClaim data", "PersistentVolumeClaim more", "ServiceAccount runner"}},
		"workflow": {
			"argoproj.io/v1alpha1/Workflow",
			"{spec: {serviceAccountName: runner, executor: {serviceAccountName: exec}, templates: [{container: {env: [{name: A, valueFrom: {secretKeyRef: {name: key, key: k}}}]}}]}}",
			[]string{"Secret key", "ServiceAccount exec", "ServiceAccount runner"},
		},
		"helm release": {
			"helm.toolkit.fluxcd.io/v2/HelmRelease", "{spec: {serviceAccountName: runner, kubeConfig: {secretRef: {name: far}}, valuesFrom: [{kind: ConfigMap, name: values}]}}",
			[]string{"ConfigMap values", "Secret far", "ServiceAccount runner"},
		},
		"tf job":      {"kubeflow.org/v1/TFJob", "{spec: {tfReplicaSpecs: {Worker: {template: " + pod + "}, PS: {template: " + pod + "}}}}", all},
		"ray service": {"ray.io/v1/RayService", "{spec: {rayClusterConfig: {headGroupSpec: {template: " + pod + "}}}}", all},
		"spark": {
			"sparkoperator.k8s.io/v1beta2/SparkApplication", "{spec: {sparkConfigMap: conf, imagePullSecrets: [pull], driver: {serviceAccount: spark, secrets: [{name: s}]}}}",
			[]string{"ConfigMap conf", "Secret pull", "Secret s", "ServiceAccount spark"},
		},
	}
	chain := interpreter(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dependencies, err := chain.Dependencies(context.Background(), object(t, tc.kind, tc.object))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range dependencies {
				if d.Namespace != "shop" {
					t.Errorf("%v is not in the object's namespace", d)
				}
				got = append(got, d.Kind+" "+d.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
