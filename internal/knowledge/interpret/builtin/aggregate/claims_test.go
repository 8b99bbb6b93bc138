package aggregate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// TestNoReportKeepsTheOthersFromTheTemplate: an API server refuses a status as a whole, so that what one member reports must be one that it
// takes.
func TestNoReportKeepsTheOthersFromTheTemplate(t *testing.T) {
	for name, tc := range map[string]struct{ kind, template, claim, honest, want string }{
		"negative": {"apps/v1/Deployment", "{metadata: {generation: 1}, spec: {replicas: 4}}",
			"{replicas: -5, readyReplicas: -7}", "{replicas: 2, readyReplicas: 2}", "{replicas: 2, readyReplicas: 2}"},
		"more ready than there are": {"apps/v1/Deployment", "{metadata: {generation: 1}, spec: {replicas: 4}}",
			"{replicas: 1, readyReplicas: 9, availableReplicas: 10, updatedReplicas: 11}", "{replicas: 2, readyReplicas: 2}", "{replicas: 3, readyReplicas: 3, availableReplicas: 1, updatedReplicas: 1}"},
		"overflow": {"apps/v1/StatefulSet", "{metadata: {generation: 1}, spec: {replicas: 4}}",
			"{replicas: 2147483647, readyReplicas: 2147483647}", "{replicas: 2, readyReplicas: 2, availableReplicas: 2}", "{replicas: 2147483647, readyReplicas: 2147483647, availableReplicas: 2}"},
		"no number": {"apps/v1/ReplicaSet", "{metadata: {generation: 1}, spec: {replicas: 4}}",
			"{replicas: many}", "{replicas: 2}", "{replicas: 2}"},
		"more than 32 bits": {"apps/v1/DaemonSet", "{metadata: {generation: 1}, spec: {}}",
			"{numberReady: 99999999999}", "{numberReady: 2}", "{currentNumberScheduled: 0, desiredNumberScheduled: 0, numberMisscheduled: 0, numberReady: 2}"},
		"no object": {"apps/v1/Deployment", "{metadata: {generation: 1}, spec: {replicas: 4}}",
			"[1, 2]", "{replicas: 2}", "{replicas: 2}"},
		"a budget": {"policy/v1/PodDisruptionBudget", "{spec: {}}",
			"{currentHealthy: -3, desiredHealthy: 9223372036854775807, expectedPods: 9223372036854775807}", "{currentHealthy: 2, desiredHealthy: 1, expectedPods: 2, disruptionsAllowed: 1}",
			"{currentHealthy: 2, desiredHealthy: 2147483647, expectedPods: 2147483647, disruptionsAllowed: 1}"},
		"an autoscaler": {"autoscaling/v2/HorizontalPodAutoscaler", "{spec: {}}",
			"{currentReplicas: 9223372036854775807, desiredReplicas: -9223372036854775808}", "{currentReplicas: 2, desiredReplicas: 3}", "{currentReplicas: 2147483647, desiredReplicas: 3}"},
		"times that are to come": {"batch/v1/CronJob", "{spec: {}}",
			"{lastScheduleTime: '9999-12-31T23:59:59Z', lastSuccessfulTime: '2026-05-01T10:00:00Z'}", "{lastScheduleTime: '2026-05-01T11:00:00Z', lastSuccessfulTime: '9999-12-31T23:59:59Z'}",
			"{lastScheduleTime: '2026-05-01T11:00:00Z', lastSuccessfulTime: '2026-05-01T10:00:00Z'}"},
		"a Job": {"batch/v1/Job", "{metadata: {creationTimestamp: '2026-05-01T08:00:00Z'}, spec: {}}",
			"{active: -1, succeeded: 2147483647, failed: -9, startTime: '1970-01-01T00:00:00Z', completionTime: '9999-12-31T23:59:59Z', conditions: [{type: Complete, status: 'True'}]}",
			"{active: 2, succeeded: 2, startTime: '2026-05-01T09:00:00Z', completionTime: '2026-05-01T11:00:00Z', conditions: [{type: Complete, status: 'True'}]}",
			"{succeeded: 2147483647, startTime: '2026-05-01T08:00:00Z', completionTime: '2026-05-01T11:00:00Z'}"},
		"an end before the start": {"batch/v1/Job", "{metadata: {creationTimestamp: '2026-05-01T08:00:00Z'}, spec: {}}",
			"{startTime: '2026-05-01T09:00:00Z', completionTime: '2001-05-01T11:00:00Z', conditions: [{type: Complete, status: 'True'}]}", "{startTime: '2026-05-01T09:00:00Z', conditions: [{type: Complete, status: 'True'}]}",
			"{startTime: '2026-05-01T09:00:00Z', completionTime: '2026-05-01T12:00:00Z'}"},
		"addresses that are none": {"v1/Service", "{spec: {type: LoadBalancer}}",
			"{loadBalancer: {ingress: [{ip: 10.0.0.300}, {hostname: 'a b'}, {hostname: 10.0.0.1}, {hostname: x.y, ipMode: VIP}, {}]}}", "{loadBalancer: {ingress: [{ip: 10.0.0.1}]}}",
			"{loadBalancer: {ingress: [{ip: 10.0.0.1, ipMode: VIP}]}}"},
		"containers that are none": {"v1/Pod", "{spec: {containers: [{name: a}]}, status: {phase: Pending}}",
			"{phase: Running, containerStatuses: [{name: a, ready: true}, 5]}", "{phase: Running, containerStatuses: [{name: a}]}",
			"{phase: Running, containerStatuses: [{name: a, ready: true}, {name: a}]}"},
	} {
		t.Run(name, func(t *testing.T) {
			template := ofKind(t, strings.TrimPrefix(tc.kind, "/"), tc.template)
			got := aggregate(t, template, item(t, "liar", tc.claim), item(t, "m2", tc.honest))
			if diff := cmp.Diff(fields(t, tc.want), withoutConditions(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestLongListsEnd has one member report lists without end.
func TestLongListsEnd(t *testing.T) {
	list := func(entry string, n int) string {
		entries := make([]string, n)
		for i := range entries {
			entries[i] = strings.ReplaceAll(entry, "%", fmt.Sprint(i))
		}
		return strings.Join(entries, ", ")
	}
	for name, tc := range map[string]struct {
		kind, template, status string
		path                   []string
		most                   int
	}{
		"addresses":  {"v1/Service", "{spec: {type: LoadBalancer}}", "{loadBalancer: {ingress: [" + list("{hostname: a%.b}", 500) + "]}}", []string{"loadBalancer", "ingress"}, bounds.MaxEntryPoints},
		"containers": {"v1/Pod", "{}", "{phase: Running, containerStatuses: [" + list("{name: a%}", 500) + "]}", []string{"containerStatuses"}, bounds.MaxContainers},
		"jobs":       {"batch/v1/CronJob", "{spec: {}}", "{active: [" + list("{name: a%}", 500) + "]}", []string{"active"}, bounds.MaxActiveJobs},
	} {
		t.Run(name, func(t *testing.T) {
			got := aggregate(t, ofKind(t, tc.kind, tc.template), item(t, "liar", tc.status))
			entries, _, err := unstructured.NestedSlice(got.Object, append([]string{"status"}, tc.path...)...)
			if err != nil || len(entries) != tc.most {
				t.Errorf("%d entries (%v), want %d", len(entries), err, tc.most)
			}
		})
	}
	pods := aggregate(t, ofKind(t, "policy/v1/PodDisruptionBudget", "{spec: {}}"), item(t, "liar", "{disruptedPods: {"+list("p%: '2026-05-01T10:00:00Z'", 1000)+"}}"))
	disrupted, _, err := unstructured.NestedMap(pods.Object, "status", "disruptedPods")
	if err != nil || len(disrupted) != bounds.MaxDisruptedPods {
		t.Errorf("%d disrupted pods (%v)", len(disrupted), err)
	}
}

// TestAnUnreadableReportIsNamed: it does not count, and the template says so.
func TestAnUnreadableReportIsNamed(t *testing.T) {
	got := aggregate(t, ofKind(t, "apps/v1/Deployment", "{spec: {replicas: 4}}"), item(t, "liar", "{replicas: many}"), item(t, "m2", "{replicas: 2}"))
	if status, reason := conditionOf(got, workv1alpha2.StatusCurrent); status != "False" || reason != workv1alpha2.ClusterStatusUnknownReason {
		t.Errorf("StatusCurrent is %s %s", status, reason)
	}
}
