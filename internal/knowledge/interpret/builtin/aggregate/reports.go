package aggregate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/fields"
)

// Aggregation folds the statuses of all copies into the one of the template. Its
// methods have the signature of interpret.Operations.Aggregate.
type Aggregation struct {
	Clock clock.PassiveClock
}

// report is what one cluster said about its copy.
type report[S any] struct {
	cluster string
	// status is zero if the cluster has not reported yet.
	status   S
	reported bool
	applied  bool
	health   workv1alpha2.ResourceHealth
}

// reports decodes the items, sorted by cluster.
func reports[S any](items []workv1alpha2.AggregatedStatusItem) ([]report[S], error) {
	list := make([]report[S], len(items))
	for i := range items {
		item := &items[i]
		list[i] = report[S]{cluster: item.ClusterName, applied: item.Applied, health: item.Health}
		if item.Status == nil || len(item.Status.Raw) == 0 || string(item.Status.Raw) == "null" {
			continue
		}
		if err := json.Unmarshal(item.Status.Raw, &list[i].status); err != nil {
			return nil, fmt.Errorf("decoding the status from cluster %s: %w", item.ClusterName, err)
		}
		list[i].reported = true
	}
	slices.SortFunc(list, func(a, b report[S]) int { return strings.Compare(a.cluster, b.cluster) })
	return list, nil
}

// clustersOf lists the clusters whose report satisfies the predicate.
func clustersOf[S any](list []report[S], predicate func(*report[S]) bool) []string {
	var clusters []string
	for i := range list {
		if predicate(&list[i]) {
			clusters = append(clusters, list[i].cluster)
		}
	}
	return clusters
}

// generations is the part of a report that says which spec it is about.
type generations struct {
	ObservedGeneration         int64 `json:"observedGeneration"`
	Generation                 int64 `json:"generation"`
	ResourceTemplateGeneration int64 `json:"resourceTemplateGeneration"`
}

// caughtUp tells whether the member's controller has seen what the template's
// current generation became there.
func (g generations) caughtUp(template int64) bool {
	return g.ObservedGeneration >= g.Generation && g.ResourceTemplateGeneration >= template
}

// observedGeneration is the template's generation if every copy has caught up
// with it, and else what the template said before: tools take it for the sign
// that the rest of the status can be trusted. Without any copy only a template
// that wants none is up to date.
func observedGeneration[S any](template *unstructured.Unstructured, list []report[S], of func(*S) generations) int64 {
	generation := template.GetGeneration()
	if len(list) == 0 {
		if desired, err := fields.SpecNumber(template, "replicas", 1); err != nil || desired != 0 {
			return fields.StatusNumber(template, "observedGeneration")
		}
		return generation
	}
	for i := range list {
		if !list[i].reported || !of(&list[i].status).caughtUp(generation) {
			return fields.StatusNumber(template, "observedGeneration")
		}
	}
	return generation
}

// untouched tells whether there is nothing to fold and nothing to correct: no
// cluster has reported, and the status is one that nobody has written yet. A
// template that wants no replicas needs no report.
func untouched(template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) bool {
	for i := range items {
		if items[i].Status != nil {
			return false
		}
	}
	status, _ := template.Object["status"].(map[string]any)
	for _, value := range status {
		if number, ok := fields.Int64(value); !ok || number != 0 {
			return false
		}
	}
	desired, err := fields.SpecNumber(template, "replicas", 1)
	return err == nil && desired != 0
}

// typedStatus returns a typed status in the form that objects read from an API
// server have.
func typedStatus(status any) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return nil, fmt.Errorf("encoding the aggregated status: %w", err)
	}
	return fields, nil
}

// statusCopy returns the template's status for editing: a new map whose values
// are still the template's.
func statusCopy(template *unstructured.Unstructured) map[string]any {
	status, _ := template.Object["status"].(map[string]any)
	if status == nil {
		return map[string]any{}
	}
	return maps.Clone(status)
}
