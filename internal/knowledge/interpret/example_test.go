package interpret_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
)

// What users define for a kind comes before the rules of the built-in kinds.
func ExampleChain() {
	customization := &configv1alpha1.ResourceInterpreterCustomization{}
	customization.Name = "farms"
	customization.Spec.Target = configv1alpha1.CustomizationTarget{APIVersion: "example.com/v1", Kind: "Farm"}
	customization.Spec.Customizations.ReplicaResource = &configv1alpha1.ReplicaResourceRequirement{
		LuaScript: "function GetReplicas(farm) return farm.spec.hens + farm.spec.cows end",
	}
	customizations := declarative.New()
	customizations.Set([]*configv1alpha1.ResourceInterpreterCustomization{customization})
	interpreter := interpret.Chain(customizations, builtin.New(clock.RealClock{}))

	for _, object := range []map[string]any{
		{"apiVersion": "example.com/v1", "kind": "Farm", "spec": map[string]any{"hens": int64(9), "cows": int64(2)}},
		{"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{"replicas": int64(3)}},
		{"apiVersion": "v1", "kind": "ConfigMap"},
	} {
		replicas, err := interpreter.Replicas(context.Background(), &unstructured.Unstructured{Object: object})
		fmt.Println(object["kind"], replicas.Known, replicas.Replicas, err)
	}
	// Output:
	// Farm true 11 <nil>
	// Deployment true 3 <nil>
	// ConfigMap false 0 <nil>
}

// The health of a kind without a rule follows from its usual conditions.
func ExampleInterpreter() {
	interpreter := interpret.Chain(builtin.New(clock.RealClock{}))
	certificate := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Certificate",
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False"}}},
	}}
	health, err := interpreter.Health(context.Background(), certificate)
	fmt.Println(health, err)
	// Output: Unhealthy <nil>
}
