package interpret

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Operations are those of one layer on one kind. A nil field means that the layer does not have the operation. The functions keep
// the promises of the [Interpreter] method of the same name.
type Operations struct {
	Replicas     func(ctx context.Context, obj *unstructured.Unstructured) (ReplicaResult, error)
	Revise       func(ctx context.Context, obj *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error)
	Components   func(ctx context.Context, obj *unstructured.Unstructured) ([]workv1alpha2.Component, error)
	Reflect      func(ctx context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error)
	Health       func(ctx context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error)
	Aggregate    func(ctx context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error)
	Prune        func(obj *unstructured.Unstructured)
	Retain       func(ctx context.Context, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error)
	Dependencies func(ctx context.Context, obj *unstructured.Unstructured) ([]Dependency, error)
}

// Layer implements operations. Lookup is called for every operation and has to be cheap; it returns nil for a kind that the layer
// does not have.
type Layer interface {
	Lookup(kind schema.GroupVersionKind) *Operations
}

// Chained takes each operation from the first of its layers that has it; it implements [Interpreter].
type Chained struct {
	layers []Layer
}

var _ Interpreter = (*Chained)(nil)

// Chain returns an interpreter over layers. The usual order is customizations, webhooks, third-party kinds, built-in kinds.
func Chain(layers ...Layer) *Chained {
	return &Chained{layers: layers}
}

// Knows is true if a layer has the operation on the kind. Prune is no operation of the API.
func (c *Chained) Knows(kind schema.GroupVersionKind, operation configv1alpha1.InterpreterOperation) bool {
	return c.first(kind, operation) != nil
}

// first returns the operations of the first layer that has the given one on the kind.
func (c *Chained) first(kind schema.GroupVersionKind, operation configv1alpha1.InterpreterOperation) *Operations {
	for _, layer := range c.layers {
		if operations := layer.Lookup(kind); operations != nil && operations.has(operation) {
			return operations
		}
	}
	return nil
}

func (o *Operations) has(operation configv1alpha1.InterpreterOperation) bool {
	switch operation {
	case configv1alpha1.InterpreterOperationInterpretReplica:
		return o.Replicas != nil
	case configv1alpha1.InterpreterOperationReviseReplica:
		return o.Revise != nil
	case configv1alpha1.InterpreterOperationInterpretComponent:
		return o.Components != nil
	case configv1alpha1.InterpreterOperationInterpretStatus:
		return o.Reflect != nil
	case configv1alpha1.InterpreterOperationInterpretHealth:
		return o.Health != nil
	case configv1alpha1.InterpreterOperationAggregateStatus:
		return o.Aggregate != nil
	case configv1alpha1.InterpreterOperationRetain:
		return o.Retain != nil
	case configv1alpha1.InterpreterOperationInterpretDependency:
		return o.Dependencies != nil
	default:
		return false
	}
}

// Replicas implements [Workload].
func (c *Chained) Replicas(ctx context.Context, obj *unstructured.Unstructured) (ReplicaResult, error) {
	ops := c.first(obj.GroupVersionKind(), configv1alpha1.InterpreterOperationInterpretReplica)
	if ops == nil {
		return ReplicaResult{}, nil
	}
	result, err := ops.Replicas(ctx, obj)
	return result, failure("reading replicas", obj, err)
}

// Revise implements [Workload].
func (c *Chained) Revise(ctx context.Context, obj *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error) {
	ops := c.first(obj.GroupVersionKind(), configv1alpha1.InterpreterOperationReviseReplica)
	if ops == nil {
		return obj, nil
	}
	revised, err := ops.Revise(ctx, obj, replicas)
	return revised, failure("revising replicas", obj, err)
}

// Components implements [Workload].
func (c *Chained) Components(ctx context.Context, obj *unstructured.Unstructured) ([]workv1alpha2.Component, error) {
	ops := c.first(obj.GroupVersionKind(), configv1alpha1.InterpreterOperationInterpretComponent)
	if ops == nil {
		return nil, nil
	}
	components, err := ops.Components(ctx, obj)
	return components, failure("reading components", obj, err)
}

// Reflect implements [Status].
func (c *Chained) Reflect(ctx context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error) {
	ops := c.first(obj.GroupVersionKind(), configv1alpha1.InterpreterOperationInterpretStatus)
	if ops == nil {
		return nil, nil
	}
	status, err := ops.Reflect(ctx, obj)
	return status, failure("reflecting the status", obj, err)
}

// Health implements [Status]. A kind that no layer has is healthy.
func (c *Chained) Health(ctx context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
	ops := c.first(obj.GroupVersionKind(), configv1alpha1.InterpreterOperationInterpretHealth)
	if ops == nil {
		return workv1alpha2.ResourceHealthy, nil
	}
	health, err := ops.Health(ctx, obj)
	if err != nil {
		return workv1alpha2.ResourceUnknown, failure("judging the health", obj, err)
	}
	return health, nil
}

// Aggregate implements [Status].
func (c *Chained) Aggregate(ctx context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	ops := c.first(template.GroupVersionKind(), configv1alpha1.InterpreterOperationAggregateStatus)
	if ops == nil {
		return template, nil
	}
	result, err := ops.Aggregate(ctx, template, items)
	return result, failure("aggregating the status", template, err)
}

// Prune implements [Shape].
func (c *Chained) Prune(obj *unstructured.Unstructured) {
	kind := obj.GroupVersionKind()
	for _, layer := range c.layers {
		if ops := layer.Lookup(kind); ops != nil && ops.Prune != nil {
			ops.Prune(obj)
			return
		}
	}
}

// Retain implements [Shape].
func (c *Chained) Retain(ctx context.Context, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ops := c.first(desired.GroupVersionKind(), configv1alpha1.InterpreterOperationRetain)
	if ops == nil {
		return desired, nil
	}
	result, err := ops.Retain(ctx, desired, observed)
	return result, failure("retaining fields", desired, err)
}

// Dependencies implements [Shape].
func (c *Chained) Dependencies(ctx context.Context, obj *unstructured.Unstructured) ([]Dependency, error) {
	ops := c.first(obj.GroupVersionKind(), configv1alpha1.InterpreterOperationInterpretDependency)
	if ops == nil {
		return nil, nil
	}
	dependencies, err := ops.Dependencies(ctx, obj)
	return dependencies, failure("listing dependencies", obj, err)
}

func failure(doing string, obj *unstructured.Unstructured, err error) error {
	if err == nil {
		return nil
	}
	name := obj.GetName()
	if namespace := obj.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Errorf("%s of %s %s: %w", doing, obj.GetKind(), name, err)
}
