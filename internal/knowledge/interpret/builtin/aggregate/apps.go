package aggregate

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

type replicaSetReport struct {
	generations
	Replicas             int32 `json:"replicas"`
	FullyLabeledReplicas int32 `json:"fullyLabeledReplicas"`
	ReadyReplicas        int32 `json:"readyReplicas"`
	AvailableReplicas    int32 `json:"availableReplicas"`
}

// ReplicaSet adds up the counters.
func (a Aggregation) ReplicaSet(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	var sum appsv1.ReplicaSetStatus
	return addUp(a, template, items, &sum, func(list []report[replicaSetReport]) {
		sum.ObservedGeneration = observedGeneration(template, list)
		for i := range list {
			sum.Replicas += list[i].status.Replicas
			sum.FullyLabeledReplicas += list[i].status.FullyLabeledReplicas
			sum.ReadyReplicas += list[i].status.ReadyReplicas
			sum.AvailableReplicas += list[i].status.AvailableReplicas
		}
	})
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

// DaemonSet adds up the counters.
func (a Aggregation) DaemonSet(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	var sum appsv1.DaemonSetStatus
	return addUp(a, template, items, &sum, func(list []report[daemonSetReport]) {
		sum.ObservedGeneration = observedGeneration(template, list)
		for i := range list {
			sum.CurrentNumberScheduled += list[i].status.CurrentNumberScheduled
			sum.NumberMisscheduled += list[i].status.NumberMisscheduled
			sum.DesiredNumberScheduled += list[i].status.DesiredNumberScheduled
			sum.NumberReady += list[i].status.NumberReady
			sum.UpdatedNumberScheduled += list[i].status.UpdatedNumberScheduled
			sum.NumberAvailable += list[i].status.NumberAvailable
			sum.NumberUnavailable += list[i].status.NumberUnavailable
		}
	})
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

// StatefulSet adds up the counters and takes the revisions of one copy.
func (a Aggregation) StatefulSet(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	var sum appsv1.StatefulSetStatus
	return addUp(a, template, items, &sum, func(list []report[statefulSetReport]) {
		sum.ObservedGeneration = rolloutGeneration(template, list, func(s *statefulSetReport) (*int32, int32) { return s.DesiredReplicas, s.ReadyReplicas })
		for i := range list {
			sum.Replicas += list[i].status.Replicas
			sum.ReadyReplicas += list[i].status.ReadyReplicas
			sum.CurrentReplicas += list[i].status.CurrentReplicas
			sum.UpdatedReplicas += list[i].status.UpdatedReplicas
			sum.AvailableReplicas += list[i].status.AvailableReplicas
		}
		sum.CurrentRevision, sum.UpdateRevision = revisions(list)
	})
}

// revisions are those of a copy that is still being updated, or of the first copy if none is: kubectl takes a difference between
// the two for an update that has not ended.
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

// addUp returns template with the status sum, to which add adds what the clusters report.
func addUp[S any](a Aggregation, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem, sum any,
	add func([]report[S])) (*unstructured.Unstructured, error) {
	if untouched(template, items) {
		return template, nil
	}
	list, err := reports[S](items)
	if err != nil {
		return nil, err
	}
	add(list)
	status, err := typedStatus(sum)
	if err != nil {
		return nil, err
	}
	a.setCurrency(template, status, items)
	return interpret.WithStatus(template, status), nil
}
