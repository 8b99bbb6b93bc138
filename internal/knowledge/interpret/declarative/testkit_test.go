package declarative_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
)

func value(t *testing.T, text string) any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("reading %q: %v", text, err)
	}
	var result any
	if err := utiljson.Unmarshal(data, &result); err != nil {
		t.Fatalf("reading %q: %v", text, err)
	}
	return result
}

func fields(t *testing.T, text string) map[string]any {
	t.Helper()
	return value(t, text).(map[string]any)
}

// thing is an object of the kind that all customizations here are about.
func thing(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{Object: fields(t, text)}
	obj.SetAPIVersion("example.com/v1")
	obj.SetKind("Thing")
	obj.SetName("x")
	obj.SetNamespace("shop")
	return obj
}

func customization(name string, scripts map[string]string) *configv1alpha1.ResourceInterpreterCustomization {
	c := &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Target = configv1alpha1.CustomizationTarget{APIVersion: "example.com/v1", Kind: "Thing"}
	r := &c.Spec.Customizations
	for function, script := range scripts {
		switch function {
		case "GetReplicas":
			r.ReplicaResource = &configv1alpha1.ReplicaResourceRequirement{LuaScript: script}
		case "GetComponents":
			r.ComponentResource = &configv1alpha1.ComponentResourceRequirement{LuaScript: script}
		case "ReviseReplica":
			r.ReplicaRevision = &configv1alpha1.ReplicaRevision{LuaScript: script}
		case "Retain":
			r.Retention = &configv1alpha1.LocalValueRetention{LuaScript: script}
		case "AggregateStatus":
			r.StatusAggregation = &configv1alpha1.StatusAggregation{LuaScript: script}
		case "ReflectStatus":
			r.StatusReflection = &configv1alpha1.StatusReflection{LuaScript: script}
		case "InterpretHealth":
			r.HealthInterpretation = &configv1alpha1.HealthInterpretation{LuaScript: script}
		case "GetDependencies":
			r.DependencyInterpretation = &configv1alpha1.DependencyInterpretation{LuaScript: script}
		}
	}
	return c
}

// interpreter has one customization with one script. Its time is long, so that a limit that is counted is reached first on a
// slow machine, too.
func interpreter(function, script string) interpret.Interpreter {
	store := declarative.New()
	store.SetTimeout(time.Minute)
	store.Set([]*configv1alpha1.ResourceInterpreterCustomization{customization("c", map[string]string{function: script})})
	return interpret.Chain(store)
}

// evaluate returns what a Lua expression comes to, as JSON.
func evaluate(t *testing.T, expression string) (string, error) {
	t.Helper()
	return run(t, "function ReflectStatus(obj) return "+expression+" end")
}

// run returns what a script's ReflectStatus comes to, as JSON.
func run(t *testing.T, script string) (string, error) {
	t.Helper()
	status, err := interpreter("ReflectStatus", script).Reflect(context.Background(), thing(t, "{status: {list: [], map: {}, text: hello}}"))
	if err != nil || status == nil {
		return "", err
	}
	return string(status.Raw), nil
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("got error %v, want one with %q", err, part)
	}
}
