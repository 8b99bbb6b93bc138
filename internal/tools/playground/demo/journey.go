package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// journey is how far one template has come.
type journey struct {
	// name is "deployment/nginx".
	name string
	// stops are the clusters it goes to, in order of name.
	stops []stop
	// replicas and ready are the template's own; nil for a kind without replicas.
	replicas, ready *int64
	// missing reports why the journey is not over; empty when it is.
	missing string
}

// stop is one cluster on a journey.
type stop struct {
	cluster  string
	replicas int32
	applied  bool
	ready    int64
}

// look reads a journey off a template and its binding, either of which may be nil.
func look(kind, name string, template *unstructured.Unstructured, binding *workv1alpha2.ResourceBinding) journey {
	j := journey{name: strings.ToLower(kind) + "/" + name}
	if template == nil {
		j.missing = "it does not exist"
		return j
	}
	if n, ok, _ := unstructured.NestedInt64(template.Object, "spec", "replicas"); ok {
		ready, _, _ := unstructured.NestedInt64(template.Object, "status", "readyReplicas")
		j.replicas, j.ready = &n, &ready
	}
	if binding != nil {
		j.stops = stops(binding)
	}
	j.missing = missing(template, binding, j)
	return j
}

func stops(binding *workv1alpha2.ResourceBinding) []stop {
	out := make([]stop, 0, len(binding.Spec.Clusters))
	for _, target := range binding.Spec.Clusters {
		s := stop{cluster: target.Name, replicas: target.Replicas}
		for _, item := range binding.Status.AggregatedStatus {
			if item.ClusterName != target.Name {
				continue
			}
			s.applied = item.Applied
			var status struct {
				ReadyReplicas int64 `json:"readyReplicas"`
			}
			if item.Status != nil && json.Unmarshal(item.Status.Raw, &status) == nil {
				s.ready = status.ReadyReplicas
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b stop) int { return strings.Compare(a.cluster, b.cluster) })
	return out
}

// missing describes what stands between a template and its status being back, in the order in which it happens.
func missing(template *unstructured.Unstructured, binding *workv1alpha2.ResourceBinding, j journey) string {
	if binding == nil {
		return "it has no binding: no policy has claimed it yet"
	}
	scheduled := meta.FindStatusCondition(binding.Status.Conditions, workv1alpha2.Scheduled)
	switch {
	case scheduled != nil && scheduled.Status == metav1.ConditionFalse:
		return fmt.Sprintf("it is not scheduled (%s): %s", scheduled.Reason, scheduled.Message)
	case scheduled == nil || len(binding.Spec.Clusters) == 0:
		return "it is not scheduled yet"
	}
	fully := meta.FindStatusCondition(binding.Status.Conditions, workv1alpha2.FullyApplied)
	if fully == nil || fully.Status != metav1.ConditionTrue {
		return notApplied(binding, fully)
	}
	if j.replicas == nil {
		return ""
	}
	observed, _, _ := unstructured.NestedInt64(template.Object, "status", "observedGeneration")
	if *j.ready != *j.replicas || observed < template.GetGeneration() {
		return fmt.Sprintf("its status shows %d of %d replicas ready", *j.ready, *j.replicas)
	}
	return ""
}

// notApplied prefers the message of a cluster over that of the condition about all of them.
func notApplied(binding *workv1alpha2.ResourceBinding, fully *metav1.Condition) string {
	for _, item := range binding.Status.AggregatedStatus {
		if !item.Applied && item.AppliedMessage != "" {
			return fmt.Sprintf("it is not applied in %s: %s", item.ClusterName, item.AppliedMessage)
		}
	}
	if fully != nil {
		return fmt.Sprintf("it is not applied everywhere (%s): %s", fully.Reason, fully.Message)
	}
	return "it is not applied yet"
}
