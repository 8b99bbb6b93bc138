package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/fields"
)

// reflectWhole carries the whole status, as for every kind without a rule.
func reflectWhole(_ context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error) {
	return raw(obj.Object["status"])
}

func reflectDeployment(_ context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error) {
	status := pick(obj, "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
		"unavailableReplicas", "terminatingReplicas")
	if status == nil {
		return nil, nil
	}
	if conditions := plainConditions(obj); len(conditions) > 0 {
		status["conditions"] = conditions
	}
	return raw(withGenerations(withDesired(status, obj), obj))
}

// reflectCounters carries the named fields of the status and the generations; with the replicas in the spec, if desired.
func reflectCounters(desired bool, names ...string) func(context.Context, *unstructured.Unstructured) (*runtime.RawExtension, error) {
	return func(_ context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error) {
		status := pick(obj, names...)
		if desired {
			status = withDesired(status, obj)
		}
		return raw(withGenerations(status, obj))
	}
}

// reflectFields carries the named fields of the status.
func reflectFields(names ...string) func(context.Context, *unstructured.Unstructured) (*runtime.RawExtension, error) {
	return func(_ context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error) {
		return raw(pick(obj, names...))
	}
}

// reflectService: only a load balancer has a status.
func reflectService(_ context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error) {
	if kind, _, _ := unstructured.NestedString(obj.Object, "spec", "type"); kind != "LoadBalancer" {
		return nil, nil
	}
	return raw(pick(obj, "loadBalancer"))
}

// pick returns the named fields of the status as a new map, or nil if the object has no status.
func pick(obj *unstructured.Unstructured, names ...string) map[string]any {
	status, ok := obj.Object["status"].(map[string]any)
	if !ok {
		return nil
	}
	picked := make(map[string]any, len(names)+4)
	for _, name := range names {
		if value, ok := status[name]; ok {
			picked[name] = value
		}
	}
	return picked
}

// withGenerations adds the generation of the member's object and that of its template: with both, and the observed one, the
// control plane distinguishes a status of the current template from an older one.
func withGenerations(status map[string]any, obj *unstructured.Unstructured) map[string]any {
	if status == nil {
		return nil
	}
	if generation := obj.GetGeneration(); generation != 0 {
		status["generation"] = generation
	}
	template, err := strconv.ParseInt(annotation(obj, workv1alpha1.TemplateGenerationAnnotation), 10, 64)
	if err == nil && template != 0 {
		status["resourceTemplateGeneration"] = template
	}
	return status
}

// withDesired adds the replicas in the spec of the member's object, without which the control plane cannot decide whether the
// counters are complete.
func withDesired(status map[string]any, obj *unstructured.Unstructured) map[string]any {
	if status == nil {
		return nil
	}
	if desired, err := fields.SpecNumber(obj, "replicas", 1); err == nil {
		status["desiredReplicas"] = desired
	}
	return status
}

// annotation reads one annotation without copying the others.
func annotation(obj *unstructured.Unstructured, key string) string {
	annotations, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "annotations")
	fields, _ := annotations.(map[string]any)
	value, _ := fields[key].(string)
	return value
}

// plainConditions leaves out lastUpdateTime, which changes without any other change.
func plainConditions(obj *unstructured.Unstructured) []any {
	conditions, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	list, _ := conditions.([]any)
	plain := make([]any, 0, len(list))
	for _, entry := range list {
		condition, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		copied := make(map[string]any, len(condition))
		for key, value := range condition {
			if key != "lastUpdateTime" {
				copied[key] = value
			}
		}
		plain = append(plain, copied)
	}
	return plain
}

// raw encodes a status; nil if there is none.
func raw(status any) (*runtime.RawExtension, error) {
	if fields, ok := status.(map[string]any); status == nil || ok && fields == nil {
		return nil, nil
	}
	data, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	return &runtime.RawExtension{Raw: data}, nil
}
