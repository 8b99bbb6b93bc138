package aggregate

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/fields"
)

// Reasons of a Deployment's conditions, as the controller of Kubernetes sets them: kubectl reads the one for an exceeded
// deadline.
const (
	reasonAvailable        = "MinimumReplicasAvailable"
	reasonUnavailable      = "MinimumReplicasUnavailable"
	reasonComplete         = "NewReplicaSetAvailable"
	reasonUpdating         = "ReplicaSetUpdated"
	reasonPaused           = "DeploymentPaused"
	reasonDeadlineExceeded = "ProgressDeadlineExceeded"
)

// deploymentReport is what reflectDeployment sends.
type deploymentReport struct {
	generations
	deploymentStatus
	DesiredReplicas *int32 `json:"desiredReplicas"`
}

type deploymentStatus struct{ appsv1.DeploymentStatus }

func (d *deploymentReport) condition(kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Conditions {
		if d.Conditions[i].Type == kind {
			return &d.Conditions[i]
		}
	}
	return nil
}

// short is true while replicas of the current revision have yet to be created.
func (d *deploymentReport) short() bool {
	return d.DesiredReplicas != nil && d.UpdatedReplicas < *d.DesiredReplicas
}

// complete is true if the rollout is over, by the rule of kubectl.
func (d *deploymentReport) complete() bool {
	return !d.short() && d.Replicas == d.UpdatedReplicas && d.AvailableReplicas >= d.UpdatedReplicas
}

func (d *deploymentReport) deadlineExceeded() bool {
	progressing := d.condition(appsv1.DeploymentProgressing)
	return progressing != nil && progressing.Reason == reasonDeadlineExceeded
}

// available follows the member's own condition; without one, as from an agent that does not send conditions, a copy is available
// when it is healthy.
func available(r *report[deploymentReport]) bool {
	if condition := r.status.condition(appsv1.DeploymentAvailable); condition != nil {
		return condition.Status == "True"
	}
	return r.reported && r.health == workv1alpha2.ResourceHealthy
}

// outdated is true for the last known report of a cluster that is unreachable. The health of a copy that differs from its Work is
// unknown as well, but its status is current.
func outdated[S any](r *report[S]) bool {
	return r.applied && r.reported && r.health == workv1alpha2.ResourceUnknown
}

// Deployment adds up the counters and makes the conditions that kubectl reads.
func (a Aggregation) Deployment(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	var sum appsv1.DeploymentStatus
	return addUp(a, template, items, &sum, func(list []report[deploymentReport]) []verdict {
		for i := range list {
			status := &list[i].status.DeploymentStatus
			status.AvailableReplicas = min(status.AvailableReplicas, status.ReadyReplicas)
			sum.TerminatingReplicas = plus(sum.TerminatingReplicas, status.TerminatingReplicas)
			addCounters(&sum, status, "Replicas", "UpdatedReplicas", "ReadyReplicas", "AvailableReplicas")
		}
		sum.ObservedGeneration = deploymentGeneration(template, list)
		return []verdict{deploymentAvailable(template, list), deploymentProgressing(template, list), deploymentFailure(list)}
	})
}

// deploymentGeneration keeps the observed generation no longer once a member's deadline for progress is over, so that kubectl can
// report that.
func deploymentGeneration(template *unstructured.Unstructured, list []report[deploymentReport]) int64 {
	return rolloutGeneration(template, list, func(d *deploymentReport) (*int32, int32) {
		if d.deadlineExceeded() {
			return nil, 0
		}
		return d.DesiredReplicas, d.UpdatedReplicas
	})
}

func deploymentAvailable(template *unstructured.Unstructured, list []report[deploymentReport]) verdict {
	v := verdict{kind: string(appsv1.DeploymentAvailable), stamp: []string{"lastUpdateTime"}}
	missing := clustersOf(list, func(r *report[deploymentReport]) bool { return !available(r) })
	stale := clustersOf(list, outdated)
	desired, err := fields.SpecNumber(template, "replicas", 1)
	switch {
	case len(missing) > 0:
		v.status, v.reason = "False", reasonUnavailable
		v.message = "Deployment does not have minimum availability in clusters: " + strings.Join(missing, ", ")
	case len(list) == 0 && (err != nil || desired != 0):
		v.status, v.reason = "False", reasonUnavailable
		v.message = "Deployment is in no cluster."
	case len(stale) > 0:
		v.status, v.reason = "Unknown", workv1alpha2.ClusterStatusUnknownReason
		v.message = "Availability is unknown in clusters: " + strings.Join(stale, ", ")
	default:
		v.status, v.reason = "True", reasonAvailable
		v.message = "Deployment has minimum availability in every cluster."
	}
	return v
}

// deploymentFailure is the condition that pods cannot be created: in which clusters, and why. It goes with the last of them.
func deploymentFailure(list []report[deploymentReport]) verdict {
	v := verdict{kind: string(appsv1.DeploymentReplicaFailure), stamp: []string{"lastUpdateTime"}}
	var clusters, causes []string
	for i := range list {
		c := list[i].status.condition(appsv1.DeploymentReplicaFailure)
		if c == nil || c.Status != "True" {
			continue
		}
		clusters = append(clusters, list[i].cluster)
		if c.Reason+c.Message != "" && len(causes) < maxCauses {
			causes = append(causes, cause(list[i].cluster, c.Reason, c.Message))
		}
	}
	if len(clusters) > 0 {
		v.status, v.reason, v.message = "True", "FailedCreate", "Pods cannot be created in clusters: "+strings.Join(clusters, ", ")+joined(causes)
	}
	return v
}

func deploymentProgressing(template *unstructured.Unstructured, list []report[deploymentReport]) verdict {
	generation := template.GetGeneration()
	v := verdict{kind: string(appsv1.DeploymentProgressing), status: "True", stamp: []string{"lastUpdateTime"}}
	exceeded := clustersOf(list, func(r *report[deploymentReport]) bool {
		return r.status.caughtUp(generation) && r.status.deadlineExceeded()
	})
	waiting := clustersOf(list, func(r *report[deploymentReport]) bool {
		return !r.reported || !r.status.caughtUp(generation) || !r.status.complete()
	})
	paused, _, _ := unstructured.NestedBool(template.Object, "spec", "paused")
	switch {
	case paused:
		v.status, v.reason, v.message = "Unknown", reasonPaused, "Deployment is paused"
	case len(exceeded) > 0:
		v.status, v.reason = "False", reasonDeadlineExceeded
		v.message = "The deadline for progress is exceeded in clusters: " + strings.Join(exceeded, ", ")
	case len(waiting) > 0:
		v.reason = reasonUpdating
		v.message = "Rolling out in clusters: " + strings.Join(waiting, ", ")
	case len(list) == 0:
		v.reason, v.message = reasonUpdating, "Deployment is in no cluster."
	default:
		v.reason, v.message = reasonComplete, "Deployment has been rolled out in every cluster."
	}
	return v
}
