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

// Aggregation adds up the statuses of all copies in the template's. Its methods have the signature of
// interpret.Operations.Aggregate. The clock dates conditions.
type Aggregation struct {
	Clock clock.PassiveClock
}

// report is what one cluster reported about its copy.
type report[S any] struct {
	cluster string
	// status is zero if the cluster has not reported yet.
	status   S
	reported bool
	// unreadable is true if what it reported is no status of the kind. It counts as not reported: what one member reports must not keep the
	// reports of the others from the template.
	unreadable bool
	applied    bool
	health     workv1alpha2.ResourceHealth
}

// reportsOf decodes the items, sorted by cluster.
func reportsOf[S any](items []workv1alpha2.AggregatedStatusItem) []report[S] {
	list := make([]report[S], len(items))
	for i := range items {
		item := &items[i]
		list[i] = report[S]{cluster: item.ClusterName, applied: item.Applied, health: item.Health}
		if item.Status == nil || len(item.Status.Raw) == 0 || string(item.Status.Raw) == "null" {
			continue
		}
		var status S // what was decoded before an error does not count
		if json.Unmarshal(item.Status.Raw, &status) != nil {
			list[i].unreadable = true
			continue
		}
		list[i].status, list[i].reported = status, true
	}
	slices.SortFunc(list, func(a, b report[S]) int { return strings.Compare(a.cluster, b.cluster) })
	return list
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

// generations is the part of a report that has the generations of the spec that it is about.
type generations struct {
	ObservedGeneration         int64 `json:"observedGeneration"`
	Generation                 int64 `json:"generation"`
	ResourceTemplateGeneration int64 `json:"resourceTemplateGeneration"`
}

// caughtUp is true if the member's controller has observed what the template's current generation became there.
func (g generations) caughtUp(template int64) bool {
	return g.ObservedGeneration >= g.Generation && g.ResourceTemplateGeneration >= template
}

// observedGeneration is the template's generation if every copy has caught up with it, and else what the template has: tools read
// it as the sign that the rest of the status is current. Without any copy only a template with no replicas is up to date.
func observedGeneration[S interface{ caughtUp(int64) bool }](template *unstructured.Unstructured, list []report[S]) int64 {
	generation := template.GetGeneration()
	if len(list) == 0 {
		if desired, err := fields.SpecNumber(template, "replicas", 1); err != nil || desired != 0 {
			return fields.StatusNumber(template, "observedGeneration")
		}
		return generation
	}
	for i := range list {
		if !list[i].reported || !list[i].status.caughtUp(generation) {
			return fields.StatusNumber(template, "observedGeneration")
		}
	}
	return generation
}

// rolloutGeneration keeps the observed generation in one more case. kubectl compares the counters with the template's replicas;
// where clusters have that many each, one finished cluster would count for all of them while another has not even created its
// pods. Replicas returns how many replicas a copy is to have, nil if that is not known or does not matter, and how many it has.
func rolloutGeneration[S interface{ caughtUp(int64) bool }](template *unstructured.Unstructured, list []report[S],
	replicas func(*S) (desired *int32, present int32)) int64 {
	observed := observedGeneration(template, list)
	wanted, err := fields.SpecNumber(template, "replicas", 1)
	if err != nil {
		return observed
	}
	var total int64
	short := false
	for i := range list {
		desired, present := replicas(&list[i].status)
		if desired == nil {
			return observed
		}
		total += int64(*desired)
		short = short || present < *desired
	}
	if short && total > wanted {
		return fields.StatusNumber(template, "observedGeneration")
	}
	return observed
}

// untouched is true if there is nothing to add up and nothing to correct: no cluster has reported, and the status is not written
// yet. A template with no replicas needs no report.
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

// typedStatus returns a typed status in the form that objects read from an API server have.
func typedStatus(status any) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return nil, fmt.Errorf("encoding the aggregated status: %w", err)
	}
	return fields, nil
}

// statusCopy returns the template's status for editing: a new map whose values are still the template's.
func statusCopy(template *unstructured.Unstructured) map[string]any {
	status, _ := template.Object["status"].(map[string]any)
	if status == nil {
		return map[string]any{}
	}
	return maps.Clone(status)
}
