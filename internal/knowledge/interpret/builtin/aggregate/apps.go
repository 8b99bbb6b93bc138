package aggregate

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/fields"
)

type replicaSetReport struct {
	generations
	Replicas             int32 `json:"replicas"`
	FullyLabeledReplicas int32 `json:"fullyLabeledReplicas"`
	ReadyReplicas        int32 `json:"readyReplicas"`
	AvailableReplicas    int32 `json:"availableReplicas"`
}

func (a Aggregation) ReplicaSet(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	if untouched(template, items) {
		return template, nil
	}
	list, err := reports[replicaSetReport](items)
	if err != nil {
		return nil, err
	}
	sum := appsv1.ReplicaSetStatus{ObservedGeneration: observedGeneration(template, list,
		func(s *replicaSetReport) generations { return s.generations })}
	for i := range list {
		sum.Replicas += list[i].status.Replicas
		sum.FullyLabeledReplicas += list[i].status.FullyLabeledReplicas
		sum.ReadyReplicas += list[i].status.ReadyReplicas
		sum.AvailableReplicas += list[i].status.AvailableReplicas
	}
	return a.finish(template, &sum, items)
}

type daemonSetReport struct {
	generations
	CurrentNumberScheduled int32 `json:"currentNumberScheduled"`
	NumberMisscheduled     int32 `json:"numberMisscheduled"`
	DesiredNumberScheduled int32 `json:"desiredNumberScheduled"`
	NumberReady            int32 `json:"numberReady"`
	UpdatedNumberScheduled int32 `json:"updatedNumberScheduled"`
	NumberAvailable        int32 `json:"numberAvailable"`
	NumberUnavailable      int32 `json:"numberUnavailable"`
}

func (a Aggregation) DaemonSet(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	if untouched(template, items) {
		return template, nil
	}
	list, err := reports[daemonSetReport](items)
	if err != nil {
		return nil, err
	}
	sum := appsv1.DaemonSetStatus{ObservedGeneration: observedGeneration(template, list,
		func(s *daemonSetReport) generations { return s.generations })}
	for i := range list {
		sum.CurrentNumberScheduled += list[i].status.CurrentNumberScheduled
		sum.NumberMisscheduled += list[i].status.NumberMisscheduled
		sum.DesiredNumberScheduled += list[i].status.DesiredNumberScheduled
		sum.NumberReady += list[i].status.NumberReady
		sum.UpdatedNumberScheduled += list[i].status.UpdatedNumberScheduled
		sum.NumberAvailable += list[i].status.NumberAvailable
		sum.NumberUnavailable += list[i].status.NumberUnavailable
	}
	return a.finish(template, &sum, items)
}

type statefulSetReport struct {
	generations
	Replicas          int32  `json:"replicas"`
	ReadyReplicas     int32  `json:"readyReplicas"`
	CurrentReplicas   int32  `json:"currentReplicas"`
	UpdatedReplicas   int32  `json:"updatedReplicas"`
	AvailableReplicas int32  `json:"availableReplicas"`
	DesiredReplicas   *int32 `json:"desiredReplicas"`
	CurrentRevision   string `json:"currentRevision"`
	UpdateRevision    string `json:"updateRevision"`
}

func (s *statefulSetReport) short() bool {
	return s.DesiredReplicas != nil && s.ReadyReplicas < *s.DesiredReplicas
}

func (a Aggregation) StatefulSet(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	if untouched(template, items) {
		return template, nil
	}
	list, err := reports[statefulSetReport](items)
	if err != nil {
		return nil, err
	}
	sum := appsv1.StatefulSetStatus{ObservedGeneration: statefulSetGeneration(template, list)}
	for i := range list {
		sum.Replicas += list[i].status.Replicas
		sum.ReadyReplicas += list[i].status.ReadyReplicas
		sum.CurrentReplicas += list[i].status.CurrentReplicas
		sum.UpdatedReplicas += list[i].status.UpdatedReplicas
		sum.AvailableReplicas += list[i].status.AvailableReplicas
	}
	sum.CurrentRevision, sum.UpdateRevision = revisions(list)
	return a.finish(template, &sum, items)
}

// revisions are those of a copy that is still being updated, or of the first
// copy if none is: kubectl takes a difference between the two for an update
// that has not ended.
func revisions(list []report[statefulSetReport]) (current, update string) {
	for i := range list {
		status := &list[i].status
		if status.CurrentRevision != status.UpdateRevision {
			return status.CurrentRevision, status.UpdateRevision
		}
		if update == "" {
			current, update = status.CurrentRevision, status.UpdateRevision
		}
	}
	return current, update
}

// statefulSetGeneration holds the observed generation back for the reason that
// deploymentGeneration gives.
func statefulSetGeneration(template *unstructured.Unstructured, list []report[statefulSetReport]) int64 {
	observed := observedGeneration(template, list, func(s *statefulSetReport) generations { return s.generations })
	desired, err := fields.SpecNumber(template, "replicas", 1)
	if err != nil {
		return observed
	}
	var total int64
	short := false
	for i := range list {
		if list[i].status.DesiredReplicas == nil {
			return observed
		}
		total += int64(*list[i].status.DesiredReplicas)
		short = short || list[i].status.short()
	}
	if short && total > desired {
		return fields.StatusNumber(template, "observedGeneration")
	}
	return observed
}

// finish turns the sum into the template's status.
func (a Aggregation) finish(template *unstructured.Unstructured, sum any, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	status, err := typedStatus(sum)
	if err != nil {
		return nil, err
	}
	a.setCurrency(template, status, items)
	return interpret.WithStatus(template, status), nil
}
