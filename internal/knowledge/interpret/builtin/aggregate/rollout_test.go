package aggregate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

const (
	done     = "observedGeneration: 1, generation: 1, resourceTemplateGeneration: 2, "
	upToDate = "conditions: [{type: Available, status: 'True'}, {type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]"
	starting = "conditions: [{type: Available, status: 'False'}, {type: Progressing, status: 'True', reason: ReplicaSetUpdated}]"
	overdue  = "conditions: [{type: Available, status: 'False'}, {type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}]"

	twoOfTwo   = "desiredReplicas: 2, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2"
	oneOfTwo   = "desiredReplicas: 2, replicas: 2, updatedReplicas: 2, readyReplicas: 1, availableReplicas: 1, unavailableReplicas: 1"
	noneOfTwo  = "desiredReplicas: 2, unavailableReplicas: 2"
	oneOfOne   = "desiredReplicas: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1"
	oldAndNew  = "desiredReplicas: 1, replicas: 2, updatedReplicas: 1, readyReplicas: 2, availableReplicas: 2"
	allOfThree = "desiredReplicas: 3, replicas: 3, updatedReplicas: 3, readyReplicas: 3, availableReplicas: 3"
)

// TestRolloutOfDeployments checks what `kubectl rollout status` prints for the template.
func TestRolloutOfDeployments(t *testing.T) {
	tests := map[string]struct {
		// replicas of the template; copies that add up to it are divided, copies
		// that each have as many are duplicates.
		replicas  string
		items     []string
		finished  bool
		failed    bool
		available string
		progress  string
	}{
		"divided and done": {
			"3", []string{done + twoOfTwo + ", " + upToDate, done + oneOfOne + ", " + upToDate},
			true, false, "True MinimumReplicasAvailable", "True NewReplicaSetAvailable",
		},
		"divided, one cluster not available": {
			"3", []string{done + oneOfTwo + ", " + starting, done + oneOfOne + ", " + upToDate},
			false, false, "False MinimumReplicasUnavailable", "True ReplicaSetUpdated",
		},
		"divided, one cluster silent": {
			"3", []string{done + twoOfTwo + ", " + upToDate, ""},
			false, false, "False MinimumReplicasUnavailable", "True ReplicaSetUpdated",
		},
		"old pods still there": {
			"1", []string{done + oldAndNew + ", " + upToDate},
			false, false, "True MinimumReplicasAvailable", "True ReplicaSetUpdated",
		},
		"duplicated and done": {
			"2", []string{done + twoOfTwo + ", " + upToDate, done + twoOfTwo + ", " + upToDate},
			true, false, "True MinimumReplicasAvailable", "True NewReplicaSetAvailable",
		},
		"duplicated, one cluster without pods yet": {
			"2", []string{done + twoOfTwo + ", " + upToDate, done + noneOfTwo + ", " + starting},
			false, false, "False MinimumReplicasUnavailable", "True ReplicaSetUpdated",
		},
		"duplicated, one cluster not available": {
			"2", []string{done + twoOfTwo + ", " + upToDate, done + oneOfTwo + ", " + starting},
			false, false, "False MinimumReplicasUnavailable", "True ReplicaSetUpdated",
		},
		"duplicated, one cluster of an older template": {
			"2", []string{done + twoOfTwo + ", " + upToDate, "observedGeneration: 1, generation: 1, resourceTemplateGeneration: 1, " + twoOfTwo + ", " + upToDate},
			false, false, "True MinimumReplicasAvailable", "True ReplicaSetUpdated",
		},
		"deadline exceeded": {
			"2", []string{done + twoOfTwo + ", " + upToDate, done + noneOfTwo + ", " + overdue},
			false, true, "False MinimumReplicasUnavailable", "False ProgressDeadlineExceeded",
		},
		"deadline exceeded before the last change": {
			"2", []string{done + twoOfTwo + ", " + upToDate, "observedGeneration: 1, generation: 1, resourceTemplateGeneration: 1, " + noneOfTwo + ", " + overdue},
			false, false, "False MinimumReplicasUnavailable", "True ReplicaSetUpdated",
		},
		"grown by an override": {
			"1", []string{done + allOfThree + ", " + upToDate},
			true, false, "True MinimumReplicasAvailable", "True NewReplicaSetAvailable",
		},
		"from an agent that sends counters only": {
			"2", []string{done + "replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2"},
			true, false, "True MinimumReplicasAvailable", "True NewReplicaSetAvailable",
		},
		"in no cluster": {
			"2", nil, false, false, "", "",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			template := ofKind(t, "apps/v1/Deployment", "{metadata: {name: web, generation: 2}, spec: {replicas: "+tc.replicas+"}}")
			result := aggregate(t, template, clusters(t, tc.items)...)
			finished, err := deploymentRollout(result)
			if finished != tc.finished || (err != nil) != tc.failed {
				t.Errorf("kubectl rollout status: finished %v, error %v; want %v, failed %v\n%v", finished, err, tc.finished, tc.failed, result.Object["status"])
			}
			status, reason := conditionOf(result, "Available")
			if got := strings.TrimSpace(status + " " + reason); got != tc.available {
				t.Errorf("Available is %q, want %q", got, tc.available)
			}
			status, reason = conditionOf(result, "Progressing")
			if got := strings.TrimSpace(status + " " + reason); got != tc.progress {
				t.Errorf("Progressing is %q, want %q", got, tc.progress)
			}
		})
	}
}

func TestAvailableIsUnknownWhileAClusterIsLost(t *testing.T) {
	template := ofKind(t, "apps/v1/Deployment", "{metadata: {generation: 2}, spec: {replicas: 2}}")
	m1, m2 := item(t, "m1", "{"+done+oneOfOne+", "+upToDate+"}"), item(t, "m2", "{"+done+oneOfOne+", "+upToDate+"}")
	if status, _ := conditionOf(aggregate(t, template, m1, lost(m2)), "Available"); status != "Unknown" {
		t.Errorf("Available is %s, want Unknown", status)
	}
}

func TestAPausedDeploymentIsNotProgressing(t *testing.T) {
	template := ofKind(t, "apps/v1/Deployment", "{metadata: {generation: 2}, spec: {paused: true, replicas: 1}}")
	result := aggregate(t, template, item(t, "m1", "{"+done+oneOfOne+", "+upToDate+"}"))
	if status, reason := conditionOf(result, "Progressing"); status != "Unknown" || reason != "DeploymentPaused" {
		t.Errorf("Progressing is %s %s", status, reason)
	}
}

func TestConditionsKeepTheirTimes(t *testing.T) {
	i, clk := newInterpreter()
	template := ofKind(t, "apps/v1/Deployment",
		"{metadata: {generation: 2}, spec: {replicas: 2}, status: {conditions: [{type: Mine, status: 'True', lastTransitionTime: '2020-01-01T00:00:00Z'}]}}")
	fold := func(template *unstructured.Unstructured, items ...workv1alpha2.AggregatedStatusItem) *unstructured.Unstructured {
		t.Helper()
		result, err := i.Aggregate(context.Background(), template, items)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	ready := item(t, "m1", "{"+done+oneOfOne+", "+upToDate+"}")
	first := fold(template, ready, silent("m2"))
	clk.SetTime(noon.Add(time.Minute))
	second := fold(first, ready, silent("m3"))
	clk.SetTime(noon.Add(2 * time.Minute))
	third := fold(second, ready)

	const start, later, last = "2026-05-01T12:00:00Z", "2026-05-01T12:01:00Z", "2026-05-01T12:02:00Z"
	for _, step := range []struct {
		name                string
		obj                 *unstructured.Unstructured
		transition, updated string
	}{
		{"at first", first, start, start},
		{"another message", second, start, later},
		{"another status", third, last, last},
	} {
		condition := conditionFields(step.obj, "Available")
		if condition["lastTransitionTime"] != step.transition || condition["lastUpdateTime"] != step.updated {
			t.Errorf("%s: got %v, want transition %s, update %s", step.name, condition, step.transition, step.updated)
		}
	}
	if mine := conditionFields(third, "Mine"); mine["lastTransitionTime"] != "2020-01-01T00:00:00Z" {
		t.Errorf("a condition of another writer was not kept: %v", mine)
	}
}

func conditionFields(obj *unstructured.Unstructured, name string) map[string]any {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, entry := range list {
		if condition := entry.(map[string]any); condition["type"] == name {
			return condition
		}
	}
	return nil
}

func TestRolloutOfStatefulSets(t *testing.T) {
	const newest, halfway = "currentRevision: b, updateRevision: b", "currentRevision: a, updateRevision: b"
	tests := map[string]struct {
		replicas string
		items    []string
		finished bool
	}{
		"divided and done":               {"3", []string{done + twoOfTwo + ", " + newest, done + oneOfOne + ", " + newest}, true},
		"divided, one being updated":     {"3", []string{done + twoOfTwo + ", " + newest, done + oneOfOne + ", " + halfway}, false},
		"divided, one not ready":         {"3", []string{done + oneOfTwo + ", " + newest, done + oneOfOne + ", " + newest}, false},
		"duplicated and done":            {"2", []string{done + twoOfTwo + ", " + newest, done + twoOfTwo + ", " + newest}, true},
		"duplicated, one without pods":   {"2", []string{done + twoOfTwo + ", " + newest, done + noneOfTwo + ", " + newest}, false},
		"duplicated, one cluster silent": {"2", []string{done + twoOfTwo + ", " + newest, ""}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			template := ofKind(t, "apps/v1/StatefulSet",
				"{metadata: {name: db, generation: 2}, spec: {updateStrategy: {type: RollingUpdate}, replicas: "+tc.replicas+"}}")
			result := aggregate(t, template, clusters(t, tc.items)...)
			finished, err := statefulSetRollout(result)
			if finished != tc.finished || err != nil {
				t.Errorf("kubectl rollout status: finished %v, error %v; want %v\n%v", finished, err, tc.finished, result.Object["status"])
			}
		})
	}
}

func TestRolloutOfDaemonSets(t *testing.T) {
	const all, some = "desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2", "desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 1"
	tests := map[string]struct {
		items    []string
		finished bool
	}{
		"done":               {[]string{done + all, done + all}, true},
		"one not available":  {[]string{done + all, done + some}, false},
		"one cluster silent": {[]string{done + all, ""}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			template := ofKind(t, "apps/v1/DaemonSet", "{metadata: {name: log, generation: 2}, spec: {updateStrategy: {type: RollingUpdate}}}")
			result := aggregate(t, template, clusters(t, tc.items)...)
			finished, err := daemonSetRollout(result)
			if finished != tc.finished || err != nil {
				t.Errorf("kubectl rollout status: finished %v, error %v; want %v\n%v", finished, err, tc.finished, result.Object["status"])
			}
		})
	}
}

func clusters(t *testing.T, statuses []string) []workv1alpha2.AggregatedStatusItem {
	t.Helper()
	var items []workv1alpha2.AggregatedStatusItem
	for i, status := range statuses {
		cluster := "m" + string(rune('1'+i))
		if status == "" {
			items = append(items, silent(cluster))
			continue
		}
		items = append(items, item(t, cluster, "{"+status+"}"))
	}
	return items
}

// The functions below say whether `kubectl rollout status` would end, and with
// which error, by the fields that it reads.

func deploymentRollout(obj *unstructured.Unstructured) (bool, error) {
	if obj.GetGeneration() > number(obj, "status", "observedGeneration") {
		return false, nil
	}
	if _, reason := conditionOf(obj, "Progressing"); reason == "ProgressDeadlineExceeded" {
		return false, errors.New("exceeded its progress deadline")
	}
	updated := number(obj, "status", "updatedReplicas")
	return updated >= number(obj, "spec", "replicas") && number(obj, "status", "replicas") <= updated &&
		number(obj, "status", "availableReplicas") >= updated, nil
}

func statefulSetRollout(obj *unstructured.Unstructured) (bool, error) {
	observed := number(obj, "status", "observedGeneration")
	status := statusOf(obj)
	return observed != 0 && obj.GetGeneration() <= observed &&
		number(obj, "status", "readyReplicas") >= number(obj, "spec", "replicas") &&
		status["updateRevision"] == status["currentRevision"], nil
}

func daemonSetRollout(obj *unstructured.Unstructured) (bool, error) {
	desired := number(obj, "status", "desiredNumberScheduled")
	return obj.GetGeneration() <= number(obj, "status", "observedGeneration") &&
		number(obj, "status", "updatedNumberScheduled") >= desired && number(obj, "status", "numberAvailable") >= desired, nil
}

func number(obj *unstructured.Unstructured, path ...string) int64 {
	value, _, _ := unstructured.NestedInt64(obj.Object, path...)
	return value
}

// TestAFailureInOneClusterIsNamed: the other clusters do not hide it, and it goes when it is over.
func TestAFailureInOneClusterIsNamed(t *testing.T) {
	const fine, refused = "{replicas: 1}", "{replicas: 0, conditions: [{type: ReplicaFailure, status: 'True', reason: FailedCreate, message: 'exceeded quota: q'}]}"
	template := ofKind(t, "apps/v1/Deployment", "{metadata: {generation: 1}, spec: {replicas: 2}}")
	failed := aggregate(t, template, item(t, "a", fine), item(t, "b", refused))
	expectCondition(t, failed, "ReplicaFailure True FailedCreate: Pods cannot be created in clusters: b (b: FailedCreate: exceeded quota: q)")
	over := aggregate(t, failed, item(t, "a", fine), item(t, "b", fine))
	list, _, _ := unstructured.NestedSlice(over.Object, "status", "conditions")
	for _, entry := range list {
		if entry.(map[string]any)["type"] == "ReplicaFailure" {
			t.Errorf("the failure is over, and the condition is %v", entry)
		}
	}
	pod := ofKind(t, "v1/Pod", "{}")
	evicted := aggregate(t, pod, item(t, "a", "{phase: Running}"), item(t, "b", "{phase: Failed, reason: Evicted, message: low on memory}"))
	for field, want := range map[string]string{"phase": "Failed", "reason": "Evicted", "message": "b: low on memory"} {
		if got, _, _ := unstructured.NestedString(evicted.Object, "status", field); got != want {
			t.Errorf("%s of the pod is %q, want %q", field, got, want)
		}
	}
	again := aggregate(t, evicted, item(t, "a", "{phase: Running}"), item(t, "b", "{phase: Running}"))
	if reason, has, _ := unstructured.NestedString(again.Object, "status", "reason"); has {
		t.Errorf("the reason of a pod that runs is %q", reason)
	}
}
