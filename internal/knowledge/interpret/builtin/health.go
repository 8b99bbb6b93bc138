package builtin

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/fields"
)

// judge makes an operation of package interpret of a rule.
func judge(healthy func(obj *unstructured.Unstructured) bool) func(context.Context, *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
	return func(_ context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
		if healthy(obj) {
			return workv1alpha2.ResourceHealthy, nil
		}
		return workv1alpha2.ResourceUnhealthy, nil
	}
}

func alwaysHealthy(*unstructured.Unstructured) bool { return true }

// healthOfRollout is the rule for Deployments and StatefulSets: the controller has observed the current spec, every replica is
// updated, every updated one is available.
func healthOfRollout(obj *unstructured.Unstructured) bool {
	desired, err := fields.SpecNumber(obj, "replicas", 1)
	if err != nil {
		return false
	}
	updated := fields.StatusNumber(obj, "updatedReplicas")
	return fields.StatusNumber(obj, "observedGeneration") == obj.GetGeneration() &&
		updated >= desired && fields.StatusNumber(obj, "availableReplicas") >= updated
}

func healthOfReplicaSet(obj *unstructured.Unstructured) bool {
	desired, err := fields.SpecNumber(obj, "replicas", 1)
	return err == nil && fields.StatusNumber(obj, "observedGeneration") == obj.GetGeneration() &&
		fields.StatusNumber(obj, "availableReplicas") >= desired
}

func healthOfDaemonSet(obj *unstructured.Unstructured) bool {
	updated := fields.StatusNumber(obj, "updatedNumberScheduled")
	return fields.StatusNumber(obj, "observedGeneration") == obj.GetGeneration() &&
		updated >= fields.StatusNumber(obj, "desiredNumberScheduled") && fields.StatusNumber(obj, "numberAvailable") >= updated
}

// healthOfJob: a Job is unhealthy once it has failed. One that runs, waits or is suspended is not.
func healthOfJob(obj *unstructured.Unstructured) bool {
	conditions := fields.Conditions(obj)
	return conditions["Failed"].Status != "True" && conditions["FailureTarget"].Status != "True"
}

// healthOfCronJob: the last run that was started and is over has succeeded.
func healthOfCronJob(obj *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "active")
	active, _ := value.([]any)
	scheduled, err := fields.StatusTime(obj, "lastScheduleTime")
	if err != nil || len(active) > 0 {
		return true
	}
	succeeded, err := fields.StatusTime(obj, "lastSuccessfulTime")
	return err == nil && !succeeded.Before(scheduled)
}

func healthOfPod(obj *unstructured.Unstructured) bool {
	switch fields.StatusText(obj, "phase") {
	case "Succeeded":
		return true
	case "Running":
		return fields.Conditions(obj)["Ready"].Status == "True"
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

// hasAddress is true if a load balancer has an address.
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

func phaseIs(healthy ...string) func(*unstructured.Unstructured) bool {
	return func(obj *unstructured.Unstructured) bool {
		return slices.Contains(healthy, fields.StatusText(obj, "phase"))
	}
}

func healthOfBudget(obj *unstructured.Unstructured) bool {
	return fields.StatusNumber(obj, "currentHealthy") >= fields.StatusNumber(obj, "desiredHealthy")
}

// healthOfAutoscaler: it can read what it measures and scale its target. Scaling that is disabled by zero replicas is no defect.
func healthOfAutoscaler(obj *unstructured.Unstructured) bool {
	conditions := fields.Conditions(obj)
	if conditions["AbleToScale"].Status == "False" {
		return false
	}
	active := conditions["ScalingActive"]
	return active.Status != "False" || active.Reason == "ScalingDisabled"
}

func healthOfNamespace(obj *unstructured.Unstructured) bool {
	return fields.StatusText(obj, "phase") != "Terminating"
}

func healthOfDefinition(obj *unstructured.Unstructured) bool {
	conditions := fields.Conditions(obj)
	return conditions["Established"].Status == "True" && conditions["NamesAccepted"].Status != "False" &&
		conditions["Terminating"].Status != "True"
}

// healthByConvention is the rule for a kind of the API server without one of its own: many have no status, so that an object without any is
// healthy.
func healthByConvention(obj *unstructured.Unstructured) bool {
	return conventional(obj) != workv1alpha2.ResourceUnhealthy
}

// healthOfOther is the rule for a kind that the interpreter does not know. Of a custom resource that nothing has touched nothing is known.
func healthOfOther(_ context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
	status, _ := obj.Object["status"].(map[string]any)
	health := conventional(obj)
	if health == workv1alpha2.ResourceUnknown && (len(status) > 0 || scheme.Scheme.Recognizes(obj.GroupVersionKind())) {
		return workv1alpha2.ResourceHealthy, nil // its controller says nothing bad, or it has none
	}
	return health, nil
}

// conventional reads what most controllers report: the observed generation, and the conditions Ready, Available, Stalled and Reconciling. An
// object that reports none of these is Unknown.
func conventional(obj *unstructured.Unstructured) workv1alpha2.ResourceHealth {
	health, generation := workv1alpha2.ResourceUnknown, obj.GetGeneration()
	observed, reported, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "observedGeneration")
	if number, ok := fields.Int64(observed); reported && ok {
		if number < generation {
			return workv1alpha2.ResourceUnhealthy
		}
		health = workv1alpha2.ResourceHealthy
	}
	conditions := fields.Conditions(obj)
	for _, bad := range []string{"Stalled", "Reconciling"} {
		condition, ok := conditions[bad]
		if condition.Status == "True" {
			return workv1alpha2.ResourceUnhealthy
		}
		if ok {
			health = workv1alpha2.ResourceHealthy
		}
	}
	for _, good := range []string{"Ready", "Available"} {
		condition, ok := conditions[good]
		if !ok {
			continue
		}
		if condition.Status != "True" || condition.Stale(generation) {
			return workv1alpha2.ResourceUnhealthy
		}
		health = workv1alpha2.ResourceHealthy
	}
	return health
}
