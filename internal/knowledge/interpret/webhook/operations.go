package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

const (
	// maxTested is how many bytes the tests of a patch may compare, if each compares the whole object: about a second of a processor.
	maxTested = 256 << 20
)

// operationsOf returns the operations that the hooks have for a kind, nil if none.
func operationsOf(hooks []*hook, kind schema.GroupVersionKind) *interpret.Operations {
	operations, found := &interpret.Operations{}, false
	for operation, assign := range map[configv1alpha1.InterpreterOperation]func(*hook){
		configv1alpha1.InterpreterOperationInterpretReplica:    func(h *hook) { operations.Replicas = h.replicas },
		configv1alpha1.InterpreterOperationInterpretComponent:  func(h *hook) { operations.Components = h.components },
		configv1alpha1.InterpreterOperationReviseReplica:       func(h *hook) { operations.Revise = h.revise },
		configv1alpha1.InterpreterOperationRetain:              func(h *hook) { operations.Retain = h.retain },
		configv1alpha1.InterpreterOperationAggregateStatus:     func(h *hook) { operations.Aggregate = h.aggregate },
		configv1alpha1.InterpreterOperationInterpretStatus:     func(h *hook) { operations.Reflect = h.reflect },
		configv1alpha1.InterpreterOperationInterpretHealth:     func(h *hook) { operations.Health = h.health },
		configv1alpha1.InterpreterOperationInterpretDependency: func(h *hook) { operations.Dependencies = h.dependencies },
	} {
		if i := slices.IndexFunc(hooks, func(h *hook) bool { return h.matches(operation, kind) }); i >= 0 {
			assign(hooks[i])
			found = true
		}
	}
	if !found {
		return nil
	}
	return operations
}

// newRequest makes a request about an object.
func newRequest(operation configv1alpha1.InterpreterOperation, obj *unstructured.Unstructured) (*configv1alpha1.ResourceInterpreterRequest, error) {
	raw, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding the object: %w", err)
	}
	return &configv1alpha1.ResourceInterpreterRequest{
		Kind: metav1.GroupVersionKind(obj.GroupVersionKind()), Name: obj.GetName(), Namespace: obj.GetNamespace(),
		Operation: operation, Object: runtime.RawExtension{Raw: raw},
	}, nil
}

// interpret calls the webhook for an operation that needs no more than the object.
func (h *hook) interpret(ctx context.Context, operation configv1alpha1.InterpreterOperation, obj *unstructured.Unstructured) (*configv1alpha1.ResourceInterpreterResponse, error) {
	request, err := newRequest(operation, obj)
	if err != nil {
		return nil, err
	}
	return h.call(ctx, request)
}

// patch calls the webhook for an operation that returns a patch of the object. Complete adds to the request.
func (h *hook) patch(ctx context.Context, operation configv1alpha1.InterpreterOperation, obj *unstructured.Unstructured,
	complete func(*configv1alpha1.ResourceInterpreterRequest) error) (*unstructured.Unstructured, error) {
	request, err := newRequest(operation, obj)
	if err != nil {
		return nil, err
	}
	if err := complete(request); err != nil {
		return nil, err
	}
	response, err := h.call(ctx, request)
	if err != nil || len(response.Patch) == 0 {
		return obj, err
	}
	if response.PatchType == nil || *response.PatchType != configv1alpha1.PatchTypeJSONPatch {
		return nil, h.wrong(errors.New("it has a patch that is not of type JSONPatch"))
	}
	result, err := apply(response.Patch, request.Object.Raw)
	if err != nil {
		return nil, h.wrong(err)
	}
	if err := interpret.SameObject(obj, result); err != nil {
		return nil, h.wrong(err)
	}
	return result, nil
}

func (h *hook) replicas(ctx context.Context, obj *unstructured.Unstructured) (interpret.ReplicaResult, error) {
	response, err := h.interpret(ctx, configv1alpha1.InterpreterOperationInterpretReplica, obj)
	if err != nil {
		return interpret.ReplicaResult{}, err
	}
	if response.Replicas == nil || *response.Replicas < 0 {
		return interpret.ReplicaResult{}, h.wrong(errors.New("it has no number of replicas"))
	}
	return interpret.ReplicaResult{
		Known: true, Replicas: *response.Replicas, Requirements: response.ReplicaRequirements,
	}, nil
}

func (h *hook) components(ctx context.Context, obj *unstructured.Unstructured) ([]workv1alpha2.Component, error) {
	response, err := h.interpret(ctx, configv1alpha1.InterpreterOperationInterpretComponent, obj)
	if err != nil {
		return nil, err
	}
	for _, component := range response.Components {
		if component.Name == "" || component.Replicas < 0 {
			return nil, h.wrong(fmt.Errorf("component %q has %d replicas", component.Name, component.Replicas))
		}
	}
	return response.Components, nil
}

func (h *hook) revise(ctx context.Context, obj *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error) {
	return h.patch(ctx, configv1alpha1.InterpreterOperationReviseReplica, obj, func(request *configv1alpha1.ResourceInterpreterRequest) error {
		request.DesiredReplicas = &replicas
		return nil
	})
}

func (h *hook) retain(ctx context.Context, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return h.patch(ctx, configv1alpha1.InterpreterOperationRetain, desired, func(request *configv1alpha1.ResourceInterpreterRequest) error {
		raw, err := json.Marshal(observed.Object)
		if err != nil {
			return fmt.Errorf("encoding the observed object: %w", err)
		}
		request.ObservedObject = &runtime.RawExtension{Raw: raw}
		return nil
	})
}

func (h *hook) aggregate(ctx context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	result, err := h.patch(ctx, configv1alpha1.InterpreterOperationAggregateStatus, template, func(request *configv1alpha1.ResourceInterpreterRequest) error {
		request.AggregatedStatus = items
		return nil
	})
	if err != nil {
		return nil, err
	}
	status, _ := result.Object["status"].(map[string]any)
	return interpret.WithStatus(template, status), nil
}

func (h *hook) reflect(ctx context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error) {
	response, err := h.interpret(ctx, configv1alpha1.InterpreterOperationInterpretStatus, obj)
	if err != nil {
		return nil, err
	}
	return response.RawStatus, nil
}

func (h *hook) health(ctx context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
	response, err := h.interpret(ctx, configv1alpha1.InterpreterOperationInterpretHealth, obj)
	switch {
	case err != nil:
		return workv1alpha2.ResourceUnknown, err
	case response.Healthy == nil:
		return workv1alpha2.ResourceUnknown, h.wrong(errors.New("it has no health"))
	case *response.Healthy:
		return workv1alpha2.ResourceHealthy, nil
	default:
		return workv1alpha2.ResourceUnhealthy, nil
	}
}

func (h *hook) dependencies(ctx context.Context, obj *unstructured.Unstructured) ([]interpret.Dependency, error) {
	response, err := h.interpret(ctx, configv1alpha1.InterpreterOperationInterpretDependency, obj)
	if err != nil {
		return nil, err
	}
	for _, d := range response.Dependencies {
		if d.APIVersion == "" || d.Kind == "" || (d.Name == "") == (d.LabelSelector == nil) {
			return nil, h.wrong(fmt.Errorf("dependency %s %s %q needs apiVersion, kind and either name or labelSelector", d.APIVersion, d.Kind, d.Name))
		}
	}
	return interpret.SortDependencies(response.Dependencies), nil
}

func apply(patch, original []byte) (*unstructured.Unstructured, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, fmt.Errorf("decoding the patch: %w", err)
	}
	if len(operations) > bounds.MaxPatchOperations {
		return nil, fmt.Errorf("the patch has %d operations, more than %d", len(operations), bounds.MaxPatchOperations)
	}
	if err := checkOperations(operations, len(original)+len(patch)); err != nil {
		return nil, err
	}
	data, err := operations.Apply(original)
	if err != nil {
		return nil, fmt.Errorf("applying the patch: %w", err)
	}
	result := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &result.Object); err != nil {
		return nil, fmt.Errorf("decoding the patched object: %w", err)
	}
	return result, nil
}

// checkOperations refuses steps that take more time or memory than the object and the patch, which have so many bytes together: thirty copies of
// an object into itself have the size of the memory, and each test may compare all of it.
func checkOperations(operations jsonpatch.Patch, size int) error {
	tested := 0
	for i, operation := range operations {
		switch operation.Kind() {
		case "copy":
			return fmt.Errorf("operation %d of the patch is a copy: use add with the value", i)
		case "test":
			if tested += size; tested > maxTested {
				return fmt.Errorf("the patch has too many tests for an object of this size: %d bytes with the patch", size)
			}
		}
	}
	return nil
}

// wrong is the error about a response that cannot be used.
func (h *hook) wrong(err error) error {
	return fmt.Errorf("response of webhook %s: %w", h.name, err)
}
