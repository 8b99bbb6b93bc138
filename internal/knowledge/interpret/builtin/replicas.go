package builtin

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// templateReplicas answers for kinds with spec.replicas and spec.template.
func templateReplicas(_ context.Context, obj *unstructured.Unstructured) (interpret.ReplicaResult, error) {
	replicas, err := specNumber(obj, "replicas", 1)
	if err != nil {
		return interpret.ReplicaResult{}, err
	}
	return replicasOf(obj, replicas, "spec", "template", "spec")
}

// jobReplicas: a Job never runs more pods side by side than it has completions
// to reach.
func jobReplicas(_ context.Context, obj *unstructured.Unstructured) (interpret.ReplicaResult, error) {
	parallelism, err := specNumber(obj, "parallelism", 1)
	if err != nil {
		return interpret.ReplicaResult{}, err
	}
	completions, err := specNumber(obj, "completions", parallelism)
	if err != nil {
		return interpret.ReplicaResult{}, err
	}
	return replicasOf(obj, min(parallelism, completions), "spec", "template", "spec")
}

func podReplicas(_ context.Context, obj *unstructured.Unstructured) (interpret.ReplicaResult, error) {
	return replicasOf(obj, 1, "spec")
}

func replicasOf(obj *unstructured.Unstructured, replicas int64, podSpec ...string) (interpret.ReplicaResult, error) {
	if replicas < 0 || replicas > math.MaxInt32 {
		return interpret.ReplicaResult{}, fmt.Errorf("%d is no number of replicas", replicas)
	}
	spec, err := podSpecAt(obj, podSpec...)
	if err != nil {
		return interpret.ReplicaResult{}, err
	}
	return interpret.ReplicaResult{
		Known:        true,
		Replicas:     int32(replicas),
		Requirements: Requirements(spec),
	}, nil
}

// reviseField returns a Revise that writes the number to spec.<field>.
func reviseField(name string) func(context.Context, *unstructured.Unstructured, int64) (*unstructured.Unstructured, error) {
	return func(_ context.Context, obj *unstructured.Unstructured, replicas int64) (*unstructured.Unstructured, error) {
		revised := obj.DeepCopy()
		if err := unstructured.SetNestedField(revised.Object, replicas, "spec", name); err != nil {
			return nil, fmt.Errorf("setting spec.%s: %w", name, err)
		}
		return revised, nil
	}
}

// specNumber reads spec.<name>, where the API's default stands in for a missing
// or null value.
func specNumber(obj *unstructured.Unstructured, name string, standard int64) (int64, error) {
	value, found, err := unstructured.NestedFieldNoCopy(obj.Object, "spec", name)
	if err != nil {
		return 0, fmt.Errorf("reading spec.%s: %w", name, err)
	}
	if !found || value == nil {
		return standard, nil
	}
	number, ok := asInt64(value)
	if !ok {
		return 0, fmt.Errorf("spec.%s is %v, not a number", name, value)
	}
	return number, nil
}

// asInt64 accepts the number types of JSON decoders and of objects built in code.
func asInt64(value any) (int64, bool) {
	switch number := value.(type) {
	case int64:
		return number, true
	case int32:
		return int64(number), true
	case int:
		return int64(number), true
	case float64:
		return int64(number), number == math.Trunc(number)
	default:
		return 0, false
	}
}

// podSpecAt reads the pod spec at the path; an object without one has an empty
// spec.
func podSpecAt(obj *unstructured.Unstructured, path ...string) (*corev1.PodSpec, error) {
	raw, _, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
	if err != nil {
		return nil, fmt.Errorf("reading the pod spec: %w", err)
	}
	spec := &corev1.PodSpec{}
	fields, ok := raw.(map[string]any)
	if !ok {
		return spec, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, spec); err != nil {
		return nil, fmt.Errorf("reading the pod spec: %w", err)
	}
	return spec, nil
}
