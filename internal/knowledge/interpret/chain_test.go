package interpret_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

type layer map[string]*interpret.Operations

func (l layer) Lookup(kind schema.GroupVersionKind) *interpret.Operations { return l[kind.Kind] }

func thing() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing",
		"metadata": map[string]any{"namespace": "shop", "name": "x"},
	}}
}

func healthy(health workv1alpha2.ResourceHealth, err error) *interpret.Operations {
	return &interpret.Operations{
		Health: func(context.Context, *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
			return health, err
		},
	}
}

func TestTheFirstLayerWithTheOperationIsUsed(t *testing.T) {
	replicas := &interpret.Operations{
		Replicas: func(context.Context, *unstructured.Unstructured) (interpret.ReplicaResult, error) {
			return interpret.ReplicaResult{Known: true, Replicas: 3}, nil
		},
	}
	chain := interpret.Chain(
		layer{"Other": healthy(workv1alpha2.ResourceHealthy, nil)},
		layer{"Thing": replicas},
		layer{"Thing": healthy(workv1alpha2.ResourceUnhealthy, nil)},
		layer{"Thing": healthy(workv1alpha2.ResourceHealthy, nil)},
	)
	if health, err := chain.Health(context.Background(), thing()); err != nil || health != workv1alpha2.ResourceUnhealthy {
		t.Errorf("health is %s, %v; want that of the third layer", health, err)
	}
	if result, err := chain.Replicas(context.Background(), thing()); err != nil || result.Replicas != 3 {
		t.Errorf("replicas are %v, %v; want those of the second layer", result, err)
	}
	kind := thing().GroupVersionKind()
	if !chain.Supports(kind, configv1alpha1.InterpreterOperationInterpretReplica) ||
		chain.Supports(kind, configv1alpha1.InterpreterOperationRetain) {
		t.Error("Supports does not return what the layers have")
	}
}

func TestRequirementsAreInTheNamespaceOfTheObject(t *testing.T) {
	for reason, tc := range map[string]struct {
		answer *workv1alpha2.ReplicaRequirements
		want   string
	}{
		"a layer that does not name it": {&workv1alpha2.ReplicaRequirements{PriorityClassName: "high"}, "shop"},
		"a layer that names another":    {&workv1alpha2.ReplicaRequirements{Namespace: "other"}, "other"},
	} {
		chain := interpret.Chain(layer{"Thing": {
			Replicas: func(context.Context, *unstructured.Unstructured) (interpret.ReplicaResult, error) {
				return interpret.ReplicaResult{Known: true, Replicas: 3, Requirements: tc.answer}, nil
			},
		}})
		before := *tc.answer
		result, err := chain.Replicas(t.Context(), thing())
		if err != nil || result.Requirements.Namespace != tc.want || result.Requirements.PriorityClassName != before.PriorityClassName {
			t.Errorf("%s: got %+v, %v; want namespace %s", reason, result.Requirements, err, tc.want)
		}
		if tc.answer.Namespace != before.Namespace {
			t.Errorf("%s: what the layer answered was changed", reason)
		}
	}
}

func TestALayerInThePlaceOfAnother(t *testing.T) {
	type pointed struct{ layer }
	first := &pointed{layer{"Thing": healthy(workv1alpha2.ResourceUnhealthy, nil)}}
	second := &pointed{layer{"Thing": healthy(workv1alpha2.ResourceHealthy, nil)}}
	chain := interpret.Chain(layer{}, first)
	for name, tc := range map[string]struct {
		chain *interpret.Chained
		want  workv1alpha2.ResourceHealth
	}{
		"before": {chain, workv1alpha2.ResourceUnhealthy}, "with it": {chain.With(first, second), workv1alpha2.ResourceHealthy},
		"of one that is not there": {chain.With(second, first), workv1alpha2.ResourceUnhealthy}, "of none": {chain.With(nil, second), workv1alpha2.ResourceUnhealthy},
	} {
		if got, err := tc.chain.Health(t.Context(), thing()); got != tc.want || err != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestAnErrorIsNotPassedOver(t *testing.T) {
	broken := errors.New("broken")
	chain := interpret.Chain(
		layer{"Thing": healthy("", broken)},
		layer{"Thing": healthy(workv1alpha2.ResourceHealthy, nil)},
	)
	health, err := chain.Health(context.Background(), thing())
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "Thing shop/x") || health != workv1alpha2.ResourceUnknown {
		t.Errorf("got %s, %v; want Unknown and an error that names the object", health, err)
	}
}

func TestAKindWithoutALayer(t *testing.T) {
	ctx, chain, obj := context.Background(), interpret.Chain(layer{}), thing()
	if result, err := chain.Replicas(ctx, obj); err != nil || result.Known {
		t.Errorf("Replicas: %v, %v", result, err)
	}
	if got, err := chain.Revise(ctx, obj, 3); err != nil || got != obj {
		t.Errorf("Revise: %v, %v", got, err)
	}
	if got, err := chain.Components(ctx, obj); err != nil || got != nil {
		t.Errorf("Components: %v, %v", got, err)
	}
	if got, err := chain.Reflect(ctx, obj); err != nil || got != nil {
		t.Errorf("Reflect: %v, %v", got, err)
	}
	if got, err := chain.Health(ctx, obj); err != nil || got != workv1alpha2.ResourceHealthy {
		t.Errorf("Health: %v, %v", got, err)
	}
	if got, err := chain.Aggregate(ctx, obj, nil); err != nil || got != obj {
		t.Errorf("Aggregate: %v, %v", got, err)
	}
	if got, err := chain.Retain(ctx, obj, thing()); err != nil || got != obj {
		t.Errorf("Retain: %v, %v", got, err)
	}
	if got, err := chain.Dependencies(ctx, obj); err != nil || got != nil {
		t.Errorf("Dependencies: %v, %v", got, err)
	}
	chain.Prune(obj, nil)
}
