package aggregate

import (
	"context"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/reports"
)

// In a report the generations of all kinds stand before those of the status, which is embedded one level deeper.
type (
	replicaSetStatus struct{ appsv1.ReplicaSetStatus }
	replicaSetReport struct {
		generations
		replicaSetStatus
	}
	daemonSetStatus struct{ appsv1.DaemonSetStatus }
	daemonSetReport struct {
		generations
		daemonSetStatus
	}
	statefulSetStatus struct{ appsv1.StatefulSetStatus }
	statefulSetReport struct {
		generations
		statefulSetStatus
		DesiredReplicas *int32 `json:"desiredReplicas"`
	}
)

// ReplicaSet adds up the counters.
func (a Aggregation) ReplicaSet(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	var sum appsv1.ReplicaSetStatus
	return addUp(a, template, items, &sum, func(list []report[replicaSetReport]) []verdict {
		for i := range list {
			status := &list[i].status.ReplicaSetStatus
			status.AvailableReplicas = min(status.AvailableReplicas, status.ReadyReplicas)
			sum.TerminatingReplicas = plus(sum.TerminatingReplicas, status.TerminatingReplicas)
			addCounters(&sum, status, "Replicas", "FullyLabeledReplicas", "ReadyReplicas", "AvailableReplicas")
		}
		sum.ObservedGeneration = observedGeneration(template, list)
		return nil
	})
}

// DaemonSet adds up the counters.
func (a Aggregation) DaemonSet(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	var sum appsv1.DaemonSetStatus
	return addUp(a, template, items, &sum, func(list []report[daemonSetReport]) []verdict {
		for i := range list {
			addCounters(&sum, &list[i].status.DaemonSetStatus, "")
		}
		sum.ObservedGeneration = observedGeneration(template, list)
		return nil
	})
}

// StatefulSet adds up the counters and takes the revisions of one copy.
func (a Aggregation) StatefulSet(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	var sum appsv1.StatefulSetStatus
	return addUp(a, template, items, &sum, func(list []report[statefulSetReport]) []verdict {
		for i := range list {
			status := &list[i].status.StatefulSetStatus
			status.AvailableReplicas = min(status.AvailableReplicas, status.ReadyReplicas)
			addCounters(&sum, status, "Replicas", "ReadyReplicas", "CurrentReplicas", "UpdatedReplicas", "AvailableReplicas")
		}
		sum.ObservedGeneration = rolloutGeneration(template, list, func(s *statefulSetReport) (*int32, int32) { return s.DesiredReplicas, s.ReadyReplicas })
		sum.CurrentRevision, sum.UpdateRevision = revisions(list)
		return nil
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

// addUp returns template with the status sum, to which add adds what the clusters report, and with the conditions that it returns.
func addUp[R any](a Aggregation, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem, sum any,
	add func([]report[R]) []verdict) (*unstructured.Unstructured, error) {
	if untouched(template, items) {
		return template, nil
	}
	list := reportsOf[R](items)
	verdicts := append([]verdict{currency(list)}, add(list)...)
	status, err := typedStatus(sum)
	if err != nil {
		return nil, err
	}
	a.setConditions(template, status, verdicts...)
	return interpret.WithStatus(template, status), nil
}

// plus adds a counter that only newer members report.
func plus(sum, count *int32) *int32 {
	if count == nil {
		return sum
	}
	return new(int32(reports.Sum(int64(ptr.Deref(sum, 0)), int64(*count))))
}

// addCounters adds the counters of a status, which are its fields of type int32, to sum. Parts are those that count some of the first
// one: an API server refuses more of them than there are of all, and with them what every other cluster reports.
func addCounters[S any](sum, status *S, all string, parts ...string) {
	into, from := reflect.ValueOf(sum).Elem(), reflect.ValueOf(status).Elem()
	for i := range into.NumField() {
		field := into.Field(i)
		if field.Kind() != reflect.Int32 {
			continue
		}
		count := from.Field(i).Int()
		if slices.Contains(parts, into.Type().Field(i).Name) {
			count = min(count, from.FieldByName(all).Int())
		}
		field.SetInt(reports.Sum(field.Int(), count))
	}
}
