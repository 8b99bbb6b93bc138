package aggregate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

func statusOf(obj *unstructured.Unstructured) map[string]any {
	status, _ := obj.Object["status"].(map[string]any)
	return status
}

// withoutConditions leaves conditions to the tests that are about them.
func withoutConditions(obj *unstructured.Unstructured) map[string]any {
	status := map[string]any{}
	for key, value := range statusOf(obj) {
		if key != "conditions" {
			status[key] = value
		}
	}
	return status
}

func TestAggregateCounters(t *testing.T) {
	tests := map[string]struct {
		kind, template string
		items          map[string]string
		want           string
	}{
		"deployment": {
			"apps/v1/Deployment", "{metadata: {generation: 3}, spec: {replicas: 5}, status: {observedGeneration: 2}}",
			map[string]string{
				"m1": "{replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2, observedGeneration: 1, generation: 1, resourceTemplateGeneration: 3}",
				"m2": "{replicas: 3, updatedReplicas: 2, readyReplicas: 1, availableReplicas: 1, unavailableReplicas: 2, observedGeneration: 7, generation: 7, resourceTemplateGeneration: 3}",
			},
			"{observedGeneration: 3, replicas: 5, updatedReplicas: 4, readyReplicas: 3, availableReplicas: 3, unavailableReplicas: 2}",
		},
		"deployment whose copy is of an older template": {
			"apps/v1/Deployment", "{metadata: {generation: 3}, spec: {replicas: 5}, status: {observedGeneration: 2}}",
			map[string]string{
				"m1": "{replicas: 2, observedGeneration: 1, generation: 1, resourceTemplateGeneration: 3}",
				"m2": "{replicas: 3, observedGeneration: 7, generation: 7, resourceTemplateGeneration: 2}",
			},
			"{observedGeneration: 2, replicas: 5}",
		},
		"deployment whose copy has not been observed": {
			"apps/v1/Deployment", "{metadata: {generation: 3}, spec: {replicas: 5}, status: {observedGeneration: 2}}",
			map[string]string{"m1": "{replicas: 2, observedGeneration: 1, generation: 2, resourceTemplateGeneration: 3}"},
			"{observedGeneration: 2, replicas: 2}",
		},
		"deployment one of whose clusters is silent": {
			"apps/v1/Deployment", "{metadata: {generation: 3}, spec: {replicas: 5}, status: {observedGeneration: 2}}",
			map[string]string{"m1": "{replicas: 2, observedGeneration: 1, generation: 1, resourceTemplateGeneration: 3}", "m2": "null"},
			"{observedGeneration: 2, replicas: 2}",
		},
		"deployment scaled to nothing": {
			"apps/v1/Deployment", "{metadata: {generation: 3}, spec: {replicas: 0}, status: {observedGeneration: 2, replicas: 5}}",
			nil, "{observedGeneration: 3}",
		},
		"deployment taken from all clusters": {
			"apps/v1/Deployment", "{metadata: {generation: 3}, spec: {replicas: 2}, status: {observedGeneration: 3, replicas: 5}}",
			nil, "{observedGeneration: 3}",
		},
		"replica set": {
			"apps/v1/ReplicaSet", "{metadata: {generation: 1}, spec: {replicas: 2}}",
			map[string]string{
				"m1": "{replicas: 1, fullyLabeledReplicas: 1, readyReplicas: 1, availableReplicas: 1, observedGeneration: 1, generation: 1, resourceTemplateGeneration: 1}",
				"m2": "{replicas: 1, observedGeneration: 1, generation: 1, resourceTemplateGeneration: 1}",
			},
			"{replicas: 2, fullyLabeledReplicas: 1, readyReplicas: 1, availableReplicas: 1, observedGeneration: 1}",
		},
		"daemon set": {
			"apps/v1/DaemonSet", "{metadata: {generation: 1}}",
			map[string]string{
				"m1": "{currentNumberScheduled: 1, numberMisscheduled: 1, desiredNumberScheduled: 2, numberReady: 1, updatedNumberScheduled: 1, numberAvailable: 1, numberUnavailable: 1, observedGeneration: 1, generation: 1, resourceTemplateGeneration: 1}",
				"m2": "{currentNumberScheduled: 3, desiredNumberScheduled: 3, numberReady: 3, updatedNumberScheduled: 3, numberAvailable: 3, observedGeneration: 1, generation: 1, resourceTemplateGeneration: 1}",
			},
			"{currentNumberScheduled: 4, numberMisscheduled: 1, desiredNumberScheduled: 5, numberReady: 4, updatedNumberScheduled: 4, numberAvailable: 4, numberUnavailable: 1, observedGeneration: 1}",
		},
		"stateful set rolled out": {
			"apps/v1/StatefulSet", "{metadata: {generation: 2}, spec: {replicas: 3}}",
			map[string]string{
				"m1": "{replicas: 1, readyReplicas: 1, currentReplicas: 1, updatedReplicas: 1, availableReplicas: 1, currentRevision: a, updateRevision: a, observedGeneration: 2, generation: 2, resourceTemplateGeneration: 2}",
				"m2": "{replicas: 2, readyReplicas: 2, currentReplicas: 2, updatedReplicas: 2, availableReplicas: 2, currentRevision: b, updateRevision: b, observedGeneration: 2, generation: 2, resourceTemplateGeneration: 2}",
			},
			"{replicas: 3, readyReplicas: 3, currentReplicas: 3, updatedReplicas: 3, availableReplicas: 3, currentRevision: a, updateRevision: a, observedGeneration: 2}",
		},
		"stateful set being updated somewhere": {
			"apps/v1/StatefulSet", "{metadata: {generation: 2}, spec: {replicas: 2}}",
			map[string]string{
				"m1": "{replicas: 1, readyReplicas: 1, currentReplicas: 1, updatedReplicas: 1, currentRevision: b, updateRevision: b}",
				"m2": "{replicas: 1, readyReplicas: 1, currentReplicas: 1, currentRevision: a, updateRevision: b}",
			},
			"{replicas: 2, readyReplicas: 2, currentReplicas: 2, updatedReplicas: 1, availableReplicas: 0, currentRevision: a, updateRevision: b}",
		},
		"cron job": {
			"batch/v1/CronJob", "{}",
			map[string]string{
				"m1": "{active: [{name: a}], lastScheduleTime: '2026-01-01T10:00:00Z', lastSuccessfulTime: '2026-01-01T11:00:00Z'}",
				"m2": "{active: [{name: b}], lastScheduleTime: '2026-01-01T10:30:00Z'}",
			},
			"{active: [{name: a}, {name: b}], lastScheduleTime: '2026-01-01T10:30:00Z', lastSuccessfulTime: '2026-01-01T11:00:00Z'}",
		},
		"service": {
			"v1/Service", "{spec: {type: LoadBalancer}}",
			map[string]string{
				"m2": "{loadBalancer: {ingress: [{ip: 2.2.2.2, ipMode: Proxy}, {hostname: b.example}]}}",
				"m1": "{loadBalancer: {ingress: [{ip: 1.1.1.1}, {hostname: a.example}, {hostname: b.example}]}}",
			},
			"{loadBalancer: {ingress: [{hostname: a.example}, {hostname: b.example}, {ip: 1.1.1.1, ipMode: VIP}, {ip: 2.2.2.2, ipMode: Proxy}]}}",
		},
		"service that lost its addresses": {
			"v1/Service", "{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 1.1.1.1}]}}}", nil, "{loadBalancer: {}}",
		},
		"service that balances nothing": {
			"v1/Service", "{spec: {type: ClusterIP}, status: {loadBalancer: {}}}",
			map[string]string{"m1": "{loadBalancer: {ingress: [{ip: 1.1.1.1}]}}"}, "{loadBalancer: {}}",
		},
		"ingress": {
			"networking.k8s.io/v1/Ingress", "{}",
			map[string]string{
				"m1": "{loadBalancer: {ingress: [{ip: 2.2.2.2, ports: [{port: 80, protocol: TCP}]}]}}",
				"m2": "{loadBalancer: {ingress: [{ip: 1.1.1.1}, {ip: 2.2.2.2, ports: [{port: 80, protocol: TCP}]}]}}",
			},
			"{loadBalancer: {ingress: [{ip: 1.1.1.1}, {ip: 2.2.2.2, ports: [{port: 80, protocol: TCP}]}]}}",
		},
		"claim with one volume lost":     {"v1/PersistentVolumeClaim", "{}", map[string]string{"m1": "{phase: Bound}", "m2": "{phase: Lost}"}, "{phase: Lost}"},
		"claim with one volume awaited":  {"v1/PersistentVolumeClaim", "{}", map[string]string{"m1": "{phase: Bound}", "m2": "{phase: Pending}"}, "{phase: Pending}"},
		"claim with one cluster silent":  {"v1/PersistentVolumeClaim", "{}", map[string]string{"m1": "{phase: Bound}", "m2": "null"}, "{phase: Pending}"},
		"claim bound everywhere":         {"v1/PersistentVolumeClaim", "{status: {phase: Pending}}", map[string]string{"m1": "{phase: Bound}", "m2": "{phase: Bound}"}, "{phase: Bound}"},
		"volume failed":                  {"v1/PersistentVolume", "{}", map[string]string{"m1": "{phase: Pending}", "m2": "{phase: Failed}"}, "{phase: Failed}"},
		"volume available":               {"v1/PersistentVolume", "{}", map[string]string{"m1": "{phase: Available}", "m2": "{phase: Bound}"}, "{phase: Available}"},
		"volume released":                {"v1/PersistentVolume", "{}", map[string]string{"m1": "{phase: Released}", "m2": "{phase: Bound}"}, "{phase: Bound}"},
		"pod failed":                     {"v1/Pod", "{status: {qosClass: Burstable}}", map[string]string{"m1": "{phase: Running}", "m2": "{phase: Failed}"}, "{qosClass: Burstable, phase: Failed}"},
		"pod pending":                    {"v1/Pod", "{}", map[string]string{"m1": "{phase: Running}", "m2": "{phase: Pending}"}, "{phase: Pending}"},
		"pod running":                    {"v1/Pod", "{}", map[string]string{"m1": "{phase: Running}", "m2": "{phase: Succeeded}"}, "{phase: Running}"},
		"containers of all pods":         {"v1/Pod", "{}", map[string]string{"m1": "{phase: Running, containerStatuses: [{name: a, restartCount: 1}]}", "m2": "{phase: Running, containerStatuses: [{name: a, restartCount: 2}], initContainerStatuses: [{name: i}]}"}, "{phase: Running, containerStatuses: [{name: a, restartCount: 1}, {name: a, restartCount: 2}], initContainerStatuses: [{name: i}]}"},
		"no container comes back":        {"v1/Pod", "{spec: {restartPolicy: Never}, status: {containerStatuses: [{name: a, state: {terminated: {exitCode: 0}}}]}}", map[string]string{"m1": "{phase: Running, containerStatuses: [{name: a, state: {terminated: {exitCode: 0}}}]}", "m2": "{phase: Running, containerStatuses: [{name: a, state: {running: {}}}]}"}, "{phase: Running, containerStatuses: [{name: a, state: {terminated: {exitCode: 0}}}]}"},
		"budget":                         {"policy/v1/PodDisruptionBudget", "{}", map[string]string{"m1": "{currentHealthy: 1, desiredHealthy: 2, expectedPods: 3, disruptionsAllowed: 4, disruptedPods: {p: '2026-01-01T10:00:00Z'}}", "m2": "{currentHealthy: 1, disruptedPods: {p: '2026-01-01T11:00:00Z'}}"}, "{currentHealthy: 2, desiredHealthy: 2, expectedPods: 3, disruptionsAllowed: 4, disruptedPods: {m1/p: '2026-01-01T10:00:00Z', m2/p: '2026-01-01T11:00:00Z'}}"},
		"autoscaler":                     {"autoscaling/v2/HorizontalPodAutoscaler", "{status: {currentMetrics: null}}", map[string]string{"m1": "{currentReplicas: 1, desiredReplicas: 2}", "m2": "{currentReplicas: 3, desiredReplicas: 4}"}, "{currentMetrics: null, currentReplicas: 4, desiredReplicas: 6}"},
		"kind without a rule stays":      {"example.com/v1/Thing", "{status: {a: 1}}", map[string]string{"m1": "{a: 2}"}, "{a: 1}"},
		"deployment that is unscheduled": {"apps/v1/Deployment", "{spec: {replicas: 1}, status: {}}", nil, "{}"},
		"stateful set unscheduled":       {"apps/v1/StatefulSet", "{spec: {replicas: 1}, status: {replicas: 0, availableReplicas: 0}}", nil, "{replicas: 0, availableReplicas: 0}"},
		"deployment with copies of none": {"apps/v1/Deployment", "{metadata: {generation: 1}, spec: {replicas: 1}}", map[string]string{"m1": "null"}, "{}"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var items []workv1alpha2.AggregatedStatusItem
			for _, cluster := range []string{"m2", "m1"} {
				switch status := tc.items[cluster]; status {
				case "":
				case "null":
					items = append(items, silent(cluster))
				default:
					items = append(items, item(t, cluster, status))
				}
			}
			template := ofKind(t, tc.kind, tc.template)
			got := aggregate(t, template, items...)
			if diff := cmp.Diff(fields(t, tc.want), withoutConditions(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestStatusIsNotCurrentWithoutACluster(t *testing.T) {
	kinds := map[string]string{
		"apps/v1/Deployment": "replicas", "apps/v1/ReplicaSet": "replicas", "apps/v1/StatefulSet": "replicas",
		"apps/v1/DaemonSet": "currentNumberScheduled", "batch/v1/Job": "active",
		"policy/v1/PodDisruptionBudget": "currentHealthy", "autoscaling/v2/HorizontalPodAutoscaler": "currentReplicas",
	}
	for kind, counter := range kinds {
		t.Run(kind, func(t *testing.T) {
			template := ofKind(t, kind, "{spec: {replicas: 4}}")
			m1, m2 := item(t, "m1", "{"+counter+": 2}"), item(t, "m2", "{"+counter+": 2}")
			cut := aggregate(t, template, m1, lost(m2))
			if status, reason := conditionOf(cut, "StatusCurrent"); status != "False" || reason != "ClusterStatusUnknown" {
				t.Errorf("StatusCurrent is %s %s, want False ClusterStatusUnknown", status, reason)
			}
			if n, _, _ := unstructured.NestedInt64(cut.Object, "status", counter); n != 4 {
				t.Errorf("%s is %d, want the last known 4", counter, n)
			}
			back := aggregate(t, cut, m1, m2)
			if status, _ := conditionOf(back, "StatusCurrent"); status != "" {
				t.Errorf("StatusCurrent is still %s after the cluster came back", status)
			}
		})
	}
}

func TestACopyThatIsNotAppliedIsNotLost(t *testing.T) {
	template := ofKind(t, "apps/v1/Deployment", "{metadata: {generation: 2}, spec: {replicas: 1}}")
	pending := lost(item(t, "m1", "{"+done+oneOfOne+", "+upToDate+"}"))
	pending.Applied = false
	result := aggregate(t, template, pending)
	if status, _ := conditionOf(result, "StatusCurrent"); status != "" {
		t.Errorf("StatusCurrent is %s, want none", status)
	}
	if status, _ := conditionOf(result, "Available"); status != "True" {
		t.Errorf("Available is %s, want True", status)
	}
}
