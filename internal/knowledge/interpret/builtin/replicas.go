package builtin

import (
	"context"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/fields"
)

// templateReplicas is the rule for kinds with spec.replicas and spec.template.
func templateReplicas(_ context.Context, obj *unstructured.Unstructured) (interpret.ReplicaResult, error) {
	replicas, err := fields.SpecNumber(obj, "replicas", 1)
	if err != nil {
		return interpret.ReplicaResult{}, err
	}
	return replicasOf(obj, replicas, "spec", "template", "spec")
}

// jobReplicas: a Job never runs more pods at a time than it has completions to reach.
func jobReplicas(_ context.Context, obj *unstructured.Unstructured) (interpret.ReplicaResult, error) {
	parallelism, err := fields.SpecNumber(obj, "parallelism", 1)
	if err != nil {
		return interpret.ReplicaResult{}, err
	}
	completions, err := fields.SpecNumber(obj, "completions", parallelism)
	if err != nil {
		return interpret.ReplicaResult{}, err
	}
	result, err := replicasOf(obj, min(parallelism, completions), "spec", "template", "spec")
	if mode, _, _ := unstructured.NestedString(obj.Object, "spec", "completionMode"); mode == "Indexed" {
		result.Identities = interpret.Whole // a Job has no first index: each cluster would run the indexes from 0 on
	}
	return result, err
}

// namedReplicas are those of a StatefulSet.
func namedReplicas(ctx context.Context, obj *unstructured.Unstructured) (interpret.ReplicaResult, error) {
	result, err := templateReplicas(ctx, obj)
	result.Identities = interpret.Named
	return result, err
}

func podReplicas(_ context.Context, obj *unstructured.Unstructured) (interpret.ReplicaResult, error) {
	return replicasOf(obj, 1, "spec")
}

func replicasOf(obj *unstructured.Unstructured, replicas int64, podSpec ...string) (interpret.ReplicaResult, error) {
	if replicas < 0 || replicas > math.MaxInt32 {
		return interpret.ReplicaResult{}, fmt.Errorf("%d is no number of replicas", replicas)
	}
	spec, err := fields.PodSpec(obj, podSpec...)
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
func reviseField(name string) func(context.Context, *unstructured.Unstructured, int32) (*unstructured.Unstructured, error) {
	return func(_ context.Context, obj *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error) {
		revised := obj.DeepCopy()
		if err := unstructured.SetNestedField(revised.Object, int64(replicas), "spec", name); err != nil {
			return nil, fmt.Errorf("setting spec.%s: %w", name, err)
		}
		return revised, nil
	}
}
