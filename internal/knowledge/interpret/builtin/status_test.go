package builtin_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

func TestHealth(t *testing.T) {
	tests := map[string]struct {
		kind, object string
		healthy      bool
	}{
		"deployment rolled out":             {"apps/v1/Deployment", "{metadata: {generation: 2}, spec: {replicas: 2}, status: {observedGeneration: 2, updatedReplicas: 2, availableReplicas: 2}}", true},
		"deployment not observed":           {"apps/v1/Deployment", "{metadata: {generation: 2}, spec: {replicas: 2}, status: {observedGeneration: 1, updatedReplicas: 2, availableReplicas: 2}}", false},
		"deployment not updated":            {"apps/v1/Deployment", "{metadata: {generation: 2}, spec: {replicas: 2}, status: {observedGeneration: 2, updatedReplicas: 1, availableReplicas: 2}}", false},
		"deployment not available":          {"apps/v1/Deployment", "{metadata: {generation: 2}, spec: {replicas: 2}, status: {observedGeneration: 2, updatedReplicas: 2, availableReplicas: 1}}", false},
		"deployment of default size":        {"apps/v1/Deployment", "{metadata: {generation: 1}, status: {observedGeneration: 1}}", false},
		"deployment of nothing":             {"apps/v1/Deployment", "{metadata: {generation: 1}, spec: {replicas: 0}, status: {observedGeneration: 1}}", true},
		"stateful set rolled out":           {"apps/v1/StatefulSet", "{metadata: {generation: 1}, spec: {replicas: 1}, status: {observedGeneration: 1, updatedReplicas: 1, availableReplicas: 1}}", true},
		"stateful set not available":        {"apps/v1/StatefulSet", "{metadata: {generation: 1}, spec: {replicas: 1}, status: {observedGeneration: 1, updatedReplicas: 1}}", false},
		"replica set available":             {"apps/v1/ReplicaSet", "{metadata: {generation: 1}, spec: {replicas: 1}, status: {observedGeneration: 1, availableReplicas: 1}}", true},
		"replica set not available":         {"apps/v1/ReplicaSet", "{metadata: {generation: 1}, spec: {replicas: 2}, status: {observedGeneration: 1, availableReplicas: 1}}", false},
		"daemon set rolled out":             {"apps/v1/DaemonSet", "{metadata: {generation: 1}, status: {observedGeneration: 1, desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 3}}", true},
		"daemon set not updated":            {"apps/v1/DaemonSet", "{metadata: {generation: 1}, status: {observedGeneration: 1, desiredNumberScheduled: 3, updatedNumberScheduled: 2, numberAvailable: 3}}", false},
		"daemon set not available":          {"apps/v1/DaemonSet", "{metadata: {generation: 1}, status: {observedGeneration: 1, desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 2}}", false},
		"job running":                       {"batch/v1/Job", "{status: {active: 1, failed: 2}}", true},
		"job complete":                      {"batch/v1/Job", "{status: {conditions: [{type: Complete, status: 'True'}]}}", true},
		"job failed":                        {"batch/v1/Job", "{status: {conditions: [{type: Failed, status: 'True'}]}}", false},
		"job about to fail":                 {"batch/v1/Job", "{status: {conditions: [{type: FailureTarget, status: 'True'}]}}", false},
		"cron job never run":                {"batch/v1/CronJob", "{}", true},
		"cron job whose run succeeded":      {"batch/v1/CronJob", "{status: {lastScheduleTime: '2026-01-01T10:00:00Z', lastSuccessfulTime: '2026-01-01T10:00:09Z'}}", true},
		"cron job whose run goes on":        {"batch/v1/CronJob", "{status: {active: [{name: j}], lastScheduleTime: '2026-01-01T10:00:00Z'}}", true},
		"cron job whose run failed":         {"batch/v1/CronJob", "{status: {lastScheduleTime: '2026-01-01T10:00:00Z', lastSuccessfulTime: '2026-01-01T09:00:09Z'}}", false},
		"pod ready":                         {"v1/Pod", "{status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}", true},
		"pod not ready":                     {"v1/Pod", "{status: {phase: Running, conditions: [{type: Ready, status: 'False'}]}}", false},
		"pod done":                          {"v1/Pod", "{status: {phase: Succeeded}}", true},
		"pod pending":                       {"v1/Pod", "{status: {phase: Pending}}", false},
		"service of any type":               {"v1/Service", "{spec: {type: ClusterIP}}", true},
		"balancer with an address":          {"v1/Service", "{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}", true},
		"balancer without an address":       {"v1/Service", "{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{}]}}}", false},
		"ingress with a name":               {"networking.k8s.io/v1/Ingress", "{status: {loadBalancer: {ingress: [{hostname: h}]}}}", true},
		"ingress without an address":        {"networking.k8s.io/v1/Ingress", "{}", false},
		"claim bound":                       {"v1/PersistentVolumeClaim", "{status: {phase: Bound}}", true},
		"claim pending":                     {"v1/PersistentVolumeClaim", "{status: {phase: Pending}}", false},
		"volume released":                   {"v1/PersistentVolume", "{status: {phase: Released}}", true},
		"volume failed":                     {"v1/PersistentVolume", "{status: {phase: Failed}}", false},
		"budget kept":                       {"policy/v1/PodDisruptionBudget", "{status: {currentHealthy: 2, desiredHealthy: 2}}", true},
		"budget broken":                     {"policy/v1/PodDisruptionBudget", "{status: {currentHealthy: 1, desiredHealthy: 2}}", false},
		"autoscaler at work":                {"autoscaling/v2/HorizontalPodAutoscaler", "{status: {conditions: [{type: AbleToScale, status: 'True'}, {type: ScalingActive, status: 'True'}]}}", true},
		"autoscaler without a target":       {"autoscaling/v2/HorizontalPodAutoscaler", "{status: {conditions: [{type: AbleToScale, status: 'False'}]}}", false},
		"autoscaler without metrics":        {"autoscaling/v2/HorizontalPodAutoscaler", "{status: {conditions: [{type: ScalingActive, status: 'False', reason: FailedGetResourceMetric}]}}", false},
		"autoscaler of a target at zero":    {"autoscaling/v2/HorizontalPodAutoscaler", "{status: {conditions: [{type: ScalingActive, status: 'False', reason: ScalingDisabled}]}}", true},
		"namespace":                         {"v1/Namespace", "{status: {phase: Active}}", true},
		"namespace going away":              {"v1/Namespace", "{status: {phase: Terminating}}", false},
		"definition served":                 {"apiextensions.k8s.io/v1/CustomResourceDefinition", "{status: {conditions: [{type: Established, status: 'True'}, {type: NamesAccepted, status: 'True'}]}}", true},
		"definition just made":              {"apiextensions.k8s.io/v1/CustomResourceDefinition", "{}", false},
		"definition with a taken name":      {"apiextensions.k8s.io/v1/CustomResourceDefinition", "{status: {conditions: [{type: Established, status: 'True'}, {type: NamesAccepted, status: 'False'}]}}", false},
		"definition going away":             {"apiextensions.k8s.io/v1/CustomResourceDefinition", "{status: {conditions: [{type: Established, status: 'True'}, {type: Terminating, status: 'True'}]}}", false},
		"config map":                        {"v1/ConfigMap", "{}", true},
		"cluster role":                      {"rbac.authorization.k8s.io/v1/ClusterRole", "{}", true},
		"service export":                    {"multicluster.x-k8s.io/v1alpha1/ServiceExport", "{}", true},
		"other kind not reconciling":        {"example.com/v1/Thing", "{status: {conditions: [{type: Reconciling, status: 'False'}]}}", true},
		"other kind with a phase":           {"example.com/v1/Thing", "{status: {phase: Sunny}}", true},
		"other kind ready":                  {"example.com/v1/Thing", "{status: {conditions: [{type: Ready, status: 'True'}]}}", true},
		"other kind not ready":              {"example.com/v1/Thing", "{status: {conditions: [{type: Ready, status: 'False'}]}}", false},
		"other kind not ready yet":          {"example.com/v1/Thing", "{status: {conditions: [{type: Ready, status: 'Unknown'}]}}", false},
		"other kind not available":          {"example.com/v1/Thing", "{status: {conditions: [{type: Available, status: 'False'}]}}", false},
		"other kind stalled":                {"example.com/v1/Thing", "{status: {conditions: [{type: Ready, status: 'True'}, {type: Stalled, status: 'True'}]}}", false},
		"other kind reconciling":            {"example.com/v1/Thing", "{status: {conditions: [{type: Reconciling, status: 'True'}]}}", false},
		"other kind behind its spec":        {"example.com/v1/Thing", "{metadata: {generation: 3}, status: {observedGeneration: 2, conditions: [{type: Ready, status: 'True'}]}}", false},
		"other kind up to date":             {"example.com/v1/Thing", "{metadata: {generation: 3}, status: {observedGeneration: 3}}", true},
		"other kind with an old condition":  {"example.com/v1/Thing", "{metadata: {generation: 3}, status: {conditions: [{type: Ready, status: 'True', observedGeneration: 2}]}}", false},
		"other kind with a strange status":  {"example.com/v1/Thing", "{status: {conditions: sunny}}", true},
		"other kind with foreign condition": {"example.com/v1/Thing", "{status: {conditions: [{type: Excited, status: 'False'}]}}", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			i := newInterpreter()
			want := workv1alpha2.ResourceUnhealthy
			if tc.healthy {
				want = workv1alpha2.ResourceHealthy
			}
			got, err := i.Health(context.Background(), ofKind(t, tc.kind, tc.object))
			if err != nil || got != want {
				t.Errorf("got %s, %v; want %s", got, err, want)
			}
		})
	}
}

// TestHealthOfWhatNothingReports: a custom resource that no controller has touched may be anything.
func TestHealthOfWhatNothingReports(t *testing.T) {
	for _, object := range []string{"{metadata: {generation: 3}, spec: {replicas: 2}}", "{status: {}}", "{status: null}"} {
		got, err := newInterpreter().Health(context.Background(), ofKind(t, "example.com/v1/Thing", object))
		if err != nil || got != workv1alpha2.ResourceUnknown {
			t.Errorf("%s: got %s, %v; want Unknown", object, got, err)
		}
	}
}

func TestReflect(t *testing.T) {
	const meta = "metadata: {generation: 4, annotations: {resourcetemplate.karmada.io/generation: '7'}}, "
	tests := map[string]struct{ kind, object, want string }{
		"deployment": {
			"apps/v1/Deployment",
			"{" + meta + "spec: {replicas: 2}, status: {observedGeneration: 4, replicas: 2, updatedReplicas: 2, readyReplicas: 1, availableReplicas: 1, unavailableReplicas: 1, collisionCount: 3, " +
				"conditions: [{type: Available, status: 'True', lastUpdateTime: x, lastTransitionTime: y}]}}",
			"{observedGeneration: 4, replicas: 2, updatedReplicas: 2, readyReplicas: 1, availableReplicas: 1, unavailableReplicas: 1, generation: 4, resourceTemplateGeneration: 7, desiredReplicas: 2, " +
				"conditions: [{type: Available, status: 'True', lastTransitionTime: y}]}",
		},
		"deployment without status": {"apps/v1/Deployment", "{" + meta + "spec: {replicas: 2}}", ""},
		"replica set": {
			"apps/v1/ReplicaSet", "{" + meta + "status: {observedGeneration: 4, replicas: 1, fullyLabeledReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: []}}",
			"{observedGeneration: 4, replicas: 1, fullyLabeledReplicas: 1, readyReplicas: 1, availableReplicas: 1, generation: 4, resourceTemplateGeneration: 7}",
		},
		"stateful set": {
			"apps/v1/StatefulSet", "{" + meta + "spec: {replicas: 3}, status: {observedGeneration: 4, replicas: 1, readyReplicas: 1, currentReplicas: 1, updatedReplicas: 1, availableReplicas: 1, currentRevision: a, updateRevision: b, collisionCount: 1}}",
			"{observedGeneration: 4, replicas: 1, readyReplicas: 1, currentReplicas: 1, updatedReplicas: 1, availableReplicas: 1, currentRevision: a, updateRevision: b, generation: 4, resourceTemplateGeneration: 7, desiredReplicas: 3}",
		},
		"daemon set": {
			"apps/v1/DaemonSet", "{" + meta + "status: {observedGeneration: 4, currentNumberScheduled: 1, numberMisscheduled: 0, desiredNumberScheduled: 1, numberReady: 1, updatedNumberScheduled: 1, numberAvailable: 1, numberUnavailable: 2, collisionCount: 1}}",
			"{observedGeneration: 4, currentNumberScheduled: 1, numberMisscheduled: 0, desiredNumberScheduled: 1, numberReady: 1, updatedNumberScheduled: 1, numberAvailable: 1, numberUnavailable: 2, generation: 4, resourceTemplateGeneration: 7}",
		},
		"job": {
			"batch/v1/Job", "{status: {active: 1, succeeded: 2, failed: 3, conditions: [], startTime: x, completionTime: y, ready: 1}}",
			"{active: 1, ready: 1, succeeded: 2, failed: 3, conditions: [], startTime: x, completionTime: y}",
		},
		"balancer": {
			"v1/Service", "{spec: {type: LoadBalancer}, status: {conditions: [], loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}", "{loadBalancer: {ingress: [{ip: 1.2.3.4}]}}",
		},
		"other service": {"v1/Service", "{spec: {type: ClusterIP}, status: {loadBalancer: {}}}", ""},
		"budget": {
			"policy/v1/PodDisruptionBudget", "{status: {currentHealthy: 1, desiredHealthy: 2, expectedPods: 3, disruptionsAllowed: 0, disruptedPods: {p: x}, observedGeneration: 1, conditions: []}}",
			"{currentHealthy: 1, desiredHealthy: 2, expectedPods: 3, disruptionsAllowed: 0, disruptedPods: {p: x}}",
		},
		"autoscaler":   {"autoscaling/v2/HorizontalPodAutoscaler", "{status: {currentReplicas: 1, desiredReplicas: 2, conditions: []}}", "{currentReplicas: 1, desiredReplicas: 2}"},
		"whole":        {"example.com/v1/Thing", "{status: {a: {b: 1}}}", "{a: {b: 1}}"},
		"nothing":      {"example.com/v1/Thing", "{}", ""},
		"cron job":     {"batch/v1/CronJob", "{status: {lastScheduleTime: x}}", "{lastScheduleTime: x}"},
		"claim":        {"v1/PersistentVolumeClaim", "{status: {phase: Bound}}", "{phase: Bound}"},
		"ingress":      {"networking.k8s.io/v1/Ingress", "{status: {loadBalancer: {}}}", "{loadBalancer: {}}"},
		"empty status": {"example.com/v1/Thing", "{status: {}}", "{}"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			i := newInterpreter()
			obj := ofKind(t, tc.kind, tc.object)
			before := obj.DeepCopy()
			got, err := i.Reflect(context.Background(), obj)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before.Object, obj.Object); diff != "" {
				t.Errorf("the object changed:\n%s", diff)
			}
			if tc.want == "" {
				if got != nil {
					t.Errorf("got %s, want none", got.Raw)
				}
				return
			}
			want, _ := json.Marshal(fields(t, tc.want))
			if got == nil || string(want) != string(got.Raw) {
				t.Errorf("got %v, want %s", decode(t, got), want)
			}
		})
	}
}
