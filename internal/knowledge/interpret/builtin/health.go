package builtin

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// judge turns a yes or no into an answer of package interpret.
func judge(healthy func(obj *unstructured.Unstructured) bool) func(context.Context, *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
	return func(_ context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
		if healthy(obj) {
			return workv1alpha2.ResourceHealthy, nil
		}
		return workv1alpha2.ResourceUnhealthy, nil
	}
}

func alwaysHealthy(*unstructured.Unstructured) bool { return true }

// healthOfRollout judges Deployments and StatefulSets: the controller has seen
// the current spec, every replica is updated, every updated one is available.
func healthOfRollout(obj *unstructured.Unstructured) bool {
	desired, err := specNumber(obj, "replicas", 1)
	if err != nil {
		return false
	}
	updated := statusNumber(obj, "updatedReplicas")
	return statusNumber(obj, "observedGeneration") == obj.GetGeneration() &&
		updated >= desired && statusNumber(obj, "availableReplicas") >= updated
}

func healthOfReplicaSet(obj *unstructured.Unstructured) bool {
	desired, err := specNumber(obj, "replicas", 1)
	return err == nil && statusNumber(obj, "observedGeneration") == obj.GetGeneration() &&
		statusNumber(obj, "availableReplicas") >= desired
}

func healthOfDaemonSet(obj *unstructured.Unstructured) bool {
	updated := statusNumber(obj, "updatedNumberScheduled")
	return statusNumber(obj, "observedGeneration") == obj.GetGeneration() &&
		updated >= statusNumber(obj, "desiredNumberScheduled") && statusNumber(obj, "numberAvailable") >= updated
}

// healthOfJob: a Job is sick once it has given up. One that runs, waits or is
// suspended is not.
func healthOfJob(obj *unstructured.Unstructured) bool {
	conditions := conditionsOf(obj)
	return conditions["Failed"].status != "True" && conditions["FailureTarget"].status != "True"
}

// healthOfCronJob: the last run that was started and is over has succeeded.
func healthOfCronJob(obj *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "active")
	active, _ := value.([]any)
	scheduled, err := statusTime(obj, "lastScheduleTime")
	if err != nil || len(active) > 0 {
		return true
	}
	succeeded, err := statusTime(obj, "lastSuccessfulTime")
	return err == nil && !succeeded.Before(scheduled)
}

func healthOfPod(obj *unstructured.Unstructured) bool {
	switch statusString(obj, "phase") {
	case "Succeeded":
		return true
	case "Running":
		return conditionsOf(obj)["Ready"].status == "True"
	default:
		return false
	}
}

func healthOfService(obj *unstructured.Unstructured) bool {
	if kind, _, _ := unstructured.NestedString(obj.Object, "spec", "type"); kind != "LoadBalancer" {
		return true
	}
	return hasAddress(obj)
}

func healthOfIngress(obj *unstructured.Unstructured) bool { return hasAddress(obj) }

// hasAddress tells whether a load balancer answers somewhere.
func hasAddress(obj *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "loadBalancer", "ingress")
	points, _ := value.([]any)
	for _, entry := range points {
		point, _ := entry.(map[string]any)
		ip, _ := point["ip"].(string)
		hostname, _ := point["hostname"].(string)
		if ip != "" || hostname != "" {
			return true
		}
	}
	return false
}

func healthOfClaim(obj *unstructured.Unstructured) bool { return statusString(obj, "phase") == "Bound" }

func healthOfVolume(obj *unstructured.Unstructured) bool {
	switch statusString(obj, "phase") {
	case "Available", "Bound", "Released":
		return true
	default:
		return false
	}
}

func healthOfBudget(obj *unstructured.Unstructured) bool {
	return statusNumber(obj, "currentHealthy") >= statusNumber(obj, "desiredHealthy")
}

// healthOfAutoscaler: it can read what it measures and reach what it scales.
// Scaling that somebody switched off by scaling to zero is no defect.
func healthOfAutoscaler(obj *unstructured.Unstructured) bool {
	conditions := conditionsOf(obj)
	if conditions["AbleToScale"].status == "False" {
		return false
	}
	active := conditions["ScalingActive"]
	return active.status != "False" || active.reason == "ScalingDisabled"
}

func healthOfNamespace(obj *unstructured.Unstructured) bool {
	return statusString(obj, "phase") != "Terminating"
}

func healthOfDefinition(obj *unstructured.Unstructured) bool {
	conditions := conditionsOf(obj)
	return conditions["Established"].status == "True" && conditions["NamesAccepted"].status != "False" &&
		conditions["Terminating"].status != "True"
}

// healthByConvention judges a kind that nobody described by what most
// controllers report: the generation they have seen, and the conditions Ready,
// Available, Stalled and Reconciling. An object that reports none of these is
// healthy.
func healthByConvention(obj *unstructured.Unstructured) bool {
	generation := obj.GetGeneration()
	observed, reported, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "observedGeneration")
	if number, ok := asInt64(observed); reported && ok && number < generation {
		return false
	}
	conditions := conditionsOf(obj)
	for _, bad := range []string{"Stalled", "Reconciling"} {
		if conditions[bad].status == "True" {
			return false
		}
	}
	for _, good := range []string{"Ready", "Available"} {
		condition, ok := conditions[good]
		if !ok {
			continue
		}
		if condition.status != "True" || condition.stale(generation) {
			return false
		}
	}
	return true
}

// condition is what every kind of condition has in common.
type condition struct {
	status, reason     string
	observedGeneration int64
}

// stale tells whether the condition is about an older spec; one that does not
// say is about the current one.
func (c condition) stale(generation int64) bool {
	return c.observedGeneration != 0 && c.observedGeneration < generation
}

// conditionsOf reads status.conditions by type.
func conditionsOf(obj *unstructured.Unstructured) map[string]condition {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	list, _ := value.([]any)
	conditions := make(map[string]condition, len(list))
	for _, entry := range list {
		fields, _ := entry.(map[string]any)
		name, _ := fields["type"].(string)
		if name == "" {
			continue
		}
		read := condition{}
		read.status, _ = fields["status"].(string)
		read.reason, _ = fields["reason"].(string)
		read.observedGeneration, _ = asInt64(fields["observedGeneration"])
		conditions[name] = read
	}
	return conditions
}

// statusNumber reads a counter of the status; a missing one is zero.
func statusNumber(obj *unstructured.Unstructured, name string) int64 {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", name)
	number, _ := asInt64(value)
	return number
}

func statusString(obj *unstructured.Unstructured, name string) string {
	value, _, _ := unstructured.NestedString(obj.Object, "status", name)
	return value
}

func statusTime(obj *unstructured.Unstructured, name string) (time.Time, error) {
	return time.Parse(time.RFC3339, statusString(obj, name))
}
