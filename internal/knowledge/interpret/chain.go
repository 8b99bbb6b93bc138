package interpret

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Operations are those of one layer on one kind. A nil field means that the layer does not have the operation. The functions keep
// the contract of the [Interpreter] method of the same name.
type Operations struct {
	Replicas     func(ctx context.Context, obj *unstructured.Unstructured) (ReplicaResult, error)
	Revise       func(ctx context.Context, obj *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error)
	Components   func(ctx context.Context, obj *unstructured.Unstructured) ([]workv1alpha2.Component, error)
	Reflect      func(ctx context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error)
	Health       func(ctx context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error)
	Aggregate    func(ctx context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error)
	Prune        func(obj, template *unstructured.Unstructured)
	Retain       func(ctx context.Context, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error)
	Dependencies func(ctx context.Context, obj *unstructured.Unstructured) ([]Dependency, error)
	Finished     func(ctx context.Context, obj *unstructured.Unstructured) (bool, error)
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

// With returns an interpreter that has another layer in the place of one of these, which has to be comparable, as a pointer is.
func (c *Chained) With(layer, another Layer) *Chained {
	layers := slices.Clone(c.layers)
	if at := slices.Index(layers, layer); at >= 0 {
		layers[at] = another
	}
	return Chain(layers...)
}

// Then returns an interpreter that has another layer after these.
func (c *Chained) Then(layer Layer) *Chained { return Chain(append(slices.Clone(c.layers), layer)...) }

// Supports returns whether a layer has the operation on the kind. Prune is no operation of the API.
func (c *Chained) Supports(kind schema.GroupVersionKind, operation configv1alpha1.InterpreterOperation) bool {
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

// call runs an operation of the first layer that has it; without one the result is none. The values of a Secret are hidden from all of
// them by the caller: by bare, or by sealed where the result is the object.
func call[R any](c *Chained, obj *unstructured.Unstructured, operation configv1alpha1.InterpreterOperation, doing string, none R, run func(*Operations) (R, error)) (R, error) {
	operations := c.first(obj.GroupVersionKind(), operation)
	if operations == nil {
		return none, nil
	}
	result, err := run(operations)
	if err != nil {
		return result, fmt.Errorf("%s of %s %s: %w", doing, obj.GetKind(), strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/"), err)
	}
	return result, nil
}

// Replicas implements [Workload]. Requirements of a layer that names no namespace are in that of the object.
func (c *Chained) Replicas(ctx context.Context, obj *unstructured.Unstructured) (ReplicaResult, error) {
	result, err := call(c, obj, configv1alpha1.InterpreterOperationInterpretReplica, "reading replicas", ReplicaResult{},
		func(o *Operations) (ReplicaResult, error) { return o.Replicas(ctx, bare(obj)) })
	if r := result.Requirements; r != nil && r.Namespace == "" {
		result.Requirements = ptr.To(*r)
		result.Requirements.Namespace = obj.GetNamespace()
	}
	return result, err
}

// Revise implements [Workload].
func (c *Chained) Revise(ctx context.Context, obj *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error) {
	return call(c, obj, configv1alpha1.InterpreterOperationReviseReplica, "revising replicas", obj,
		func(o *Operations) (*unstructured.Unstructured, error) {
			var values sealed
			hidden := values.hide(obj)
			revised, err := o.Revise(ctx, hidden, replicas)
			if err != nil {
				return nil, err
			}
			return values.returning(obj, hidden, revised)
		})
}

// Components implements [Workload].
func (c *Chained) Components(ctx context.Context, obj *unstructured.Unstructured) ([]workv1alpha2.Component, error) {
	return call(c, obj, configv1alpha1.InterpreterOperationInterpretComponent, "reading components", nil,
		func(o *Operations) ([]workv1alpha2.Component, error) { return o.Components(ctx, bare(obj)) })
}

// Reflect implements [Status].
func (c *Chained) Reflect(ctx context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error) {
	return call(c, obj, configv1alpha1.InterpreterOperationInterpretStatus, "reflecting the status", nil,
		func(o *Operations) (*runtime.RawExtension, error) { return o.Reflect(ctx, bare(obj)) })
}

// Health implements [Status]. A kind that no layer has is healthy.
func (c *Chained) Health(ctx context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
	health, err := call(c, obj, configv1alpha1.InterpreterOperationInterpretHealth, "judging the health", workv1alpha2.ResourceHealthy,
		func(o *Operations) (workv1alpha2.ResourceHealth, error) { return o.Health(ctx, bare(obj)) })
	if err != nil {
		return workv1alpha2.ResourceUnknown, err
	}
	return health, nil
}

// Finished implements [Status]. It is no operation of the API: a customization has it beside the health.
func (c *Chained) Finished(ctx context.Context, obj *unstructured.Unstructured) (bool, error) {
	for _, layer := range c.layers {
		operations := layer.Lookup(obj.GroupVersionKind())
		if operations == nil || operations.Finished == nil {
			continue
		}
		finished, err := operations.Finished(ctx, bare(obj))
		if err != nil {
			return false, fmt.Errorf("reading whether %s %s ran to its end: %w", obj.GetKind(), obj.GetName(), err)
		}
		return finished, nil
	}
	return false, nil
}

// Aggregate implements [Status].
func (c *Chained) Aggregate(ctx context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	return call(c, template, configv1alpha1.InterpreterOperationAggregateStatus, "aggregating the status", template,
		func(o *Operations) (*unstructured.Unstructured, error) {
			shown := bare(template)
			aggregated, err := o.Aggregate(ctx, shown, items)
			if err != nil || shown == template {
				return aggregated, err
			}
			status, _ := aggregated.Object["status"].(map[string]any)
			return WithStatus(template, status), nil
		})
}

// Prune implements [Shape].
func (c *Chained) Prune(obj, template *unstructured.Unstructured) {
	kind := obj.GroupVersionKind()
	if template == nil {
		template = obj
	}
	for _, layer := range c.layers {
		if ops := layer.Lookup(kind); ops != nil && ops.Prune != nil {
			ops.Prune(obj, template)
			return
		}
	}
}

// Retain implements [Shape].
func (c *Chained) Retain(ctx context.Context, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return call(c, desired, configv1alpha1.InterpreterOperationRetain, "retaining fields", desired,
		func(o *Operations) (*unstructured.Unstructured, error) {
			var values sealed
			hidden := values.hide(desired)
			retained, err := o.Retain(ctx, hidden, values.hide(observed))
			if err != nil {
				return nil, err
			}
			return values.returning(desired, hidden, retained)
		})
}

// Dependencies implements [Shape].
func (c *Chained) Dependencies(ctx context.Context, obj *unstructured.Unstructured) ([]Dependency, error) {
	return call(c, obj, configv1alpha1.InterpreterOperationInterpretDependency, "listing dependencies", nil,
		func(o *Operations) ([]Dependency, error) { return o.Dependencies(ctx, bare(obj)) })
}
