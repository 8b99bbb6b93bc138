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

// Operations is what one source knows about one kind. A nil field means that the
// source has nothing to say about that question. The functions keep the promises
// of the [Interpreter] method of the same name.
type Operations struct {
	Replicas     func(ctx context.Context, obj *unstructured.Unstructured) (ReplicaResult, error)
	Revise       func(ctx context.Context, obj *unstructured.Unstructured, replicas int64) (*unstructured.Unstructured, error)
	Components   func(ctx context.Context, obj *unstructured.Unstructured) ([]workv1alpha2.Component, error)
	Reflect      func(ctx context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error)
	Health       func(ctx context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error)
	Aggregate    func(ctx context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error)
	Prune        func(obj *unstructured.Unstructured)
	Retain       func(ctx context.Context, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error)
	Dependencies func(ctx context.Context, obj *unstructured.Unstructured) ([]Dependency, error)
}

// Layer is one source of answers. Lookup is called for every question and has to
// be cheap; it returns nil for a kind the layer knows nothing about.
type Layer interface {
	Lookup(kind schema.GroupVersionKind) *Operations
}

// Chained asks its layers in order; it implements [Interpreter].
type Chained struct {
	layers []Layer
}

var _ Interpreter = (*Chained)(nil)

// Chain returns an interpreter that takes each answer from the first layer that
// has one. The usual order is customizations, webhooks, built-in knowledge. A
// chain without the built-in layer knows only what somebody customised: its
// Retain, for one, leaves every other object as desired.
func Chain(layers ...Layer) *Chained {
	return &Chained{layers: layers}
}

// Knows tells whether a layer has an answer of its own for the operation on the
// kind. Knowing a kind's Prune cannot be asked for: it is no operation of the API.
func (c *Chained) Knows(kind schema.GroupVersionKind, operation configv1alpha1.InterpreterOperation) bool {
	for _, layer := range c.layers {
		if ops := layer.Lookup(kind); ops != nil && ops.has(operation) {
			return true
		}
	}
	return false
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
	kind := obj.GroupVersionKind()
	for _, layer := range c.layers {
		if ops := layer.Lookup(kind); ops != nil && ops.Replicas != nil {
			result, err := ops.Replicas(ctx, obj)
			return result, failure("reading replicas", obj, err)
		}
	}
	return ReplicaResult{}, nil
}

// Revise implements [Workload].
func (c *Chained) Revise(ctx context.Context, obj *unstructured.Unstructured, replicas int64) (*unstructured.Unstructured, error) {
	kind := obj.GroupVersionKind()
	for _, layer := range c.layers {
		if ops := layer.Lookup(kind); ops != nil && ops.Revise != nil {
			revised, err := ops.Revise(ctx, obj, replicas)
			return revised, failure("revising replicas", obj, err)
		}
	}
	return obj, nil
}

// Components implements [Workload].
func (c *Chained) Components(ctx context.Context, obj *unstructured.Unstructured) ([]workv1alpha2.Component, error) {
	kind := obj.GroupVersionKind()
	for _, layer := range c.layers {
		if ops := layer.Lookup(kind); ops != nil && ops.Components != nil {
			components, err := ops.Components(ctx, obj)
			return components, failure("reading components", obj, err)
		}
	}
	return nil, nil
}

// Reflect implements [Status].
func (c *Chained) Reflect(ctx context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error) {
	kind := obj.GroupVersionKind()
	for _, layer := range c.layers {
		if ops := layer.Lookup(kind); ops != nil && ops.Reflect != nil {
			status, err := ops.Reflect(ctx, obj)
			return status, failure("reflecting the status", obj, err)
		}
	}
	return nil, nil
}

// Health implements [Status]. A kind nobody knows is healthy.
func (c *Chained) Health(ctx context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
	kind := obj.GroupVersionKind()
	for _, layer := range c.layers {
		if ops := layer.Lookup(kind); ops != nil && ops.Health != nil {
			health, err := ops.Health(ctx, obj)
			if err != nil {
				return workv1alpha2.ResourceUnknown, failure("judging the health", obj, err)
			}
			return health, nil
		}
	}
	return workv1alpha2.ResourceHealthy, nil
}

// Aggregate implements [Status].
func (c *Chained) Aggregate(ctx context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	kind := template.GroupVersionKind()
	for _, layer := range c.layers {
		if ops := layer.Lookup(kind); ops != nil && ops.Aggregate != nil {
			result, err := ops.Aggregate(ctx, template, items)
			return result, failure("aggregating the status", template, err)
		}
	}
	return template, nil
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
	kind := desired.GroupVersionKind()
	for _, layer := range c.layers {
		if ops := layer.Lookup(kind); ops != nil && ops.Retain != nil {
			result, err := ops.Retain(ctx, desired, observed)
			return result, failure("retaining fields", desired, err)
		}
	}
	return desired, nil
}

// Dependencies implements [Shape].
func (c *Chained) Dependencies(ctx context.Context, obj *unstructured.Unstructured) ([]Dependency, error) {
	kind := obj.GroupVersionKind()
	for _, layer := range c.layers {
		if ops := layer.Lookup(kind); ops != nil && ops.Dependencies != nil {
			dependencies, err := ops.Dependencies(ctx, obj)
			return dependencies, failure("listing dependencies", obj, err)
		}
	}
	return nil, nil
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
