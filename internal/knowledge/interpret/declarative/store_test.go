package declarative_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

type customizations = []*configv1alpha1.ResourceInterpreterCustomization

func replicasOf(n string) map[string]string {
	return map[string]string{"GetReplicas": "function GetReplicas(obj) return " + n + " end"}
}

func TestTheFirstCustomizationByNameAnswers(t *testing.T) {
	store := declarative.New()
	store.Set(customizations{
		customization("c", replicasOf("3")),
		customization("b", replicasOf("2")),
		customization("a", map[string]string{"InterpretHealth": "function InterpretHealth(obj) return true end"}),
	})
	got, err := interpret.Chain(store).Replicas(context.Background(), thing(t, "{}"))
	if err != nil || got.Replicas != 2 {
		t.Errorf("got %+v, %v; want the answer of b", got, err)
	}
}

func TestDependenciesOfAllCustomizations(t *testing.T) {
	one := func(name string) map[string]string {
		return map[string]string{"GetDependencies": "function GetDependencies(obj) return {{apiVersion = 'v1', kind = 'Secret', namespace = 'shop', name = '" + name + "'}} end"}
	}
	store := declarative.New()
	store.Set(customizations{customization("b", one("y")), customization("a", one("z")), customization("c", one("y")),
		customization("d", map[string]string{"GetDependencies": "function GetDependencies(obj) return {} end"})})
	got, err := interpret.Chain(store).Dependencies(context.Background(), thing(t, "{}"))
	var names []string
	for _, d := range got {
		names = append(names, d.Name)
	}
	if diff := cmp.Diff([]string{"y", "z"}, names); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

func TestSetReturnsWhatChanged(t *testing.T) {
	store := declarative.New()
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	steps := []struct {
		name string
		set  customizations
		want []schema.GroupVersionKind
	}{
		{"new", customizations{customization("a", replicasOf("1"))}, []schema.GroupVersionKind{kind}},
		{"the same again", customizations{customization("a", replicasOf("1"))}, nil},
		{"another script", customizations{customization("a", replicasOf("2"))}, []schema.GroupVersionKind{kind}},
		{"one more", customizations{customization("a", replicasOf("2")), customization("b", replicasOf("3"))}, []schema.GroupVersionKind{kind}},
		{"another order of the list", customizations{customization("b", replicasOf("3")), customization("a", replicasOf("2"))}, nil},
		{"gone", nil, []schema.GroupVersionKind{kind}},
	}
	for _, step := range steps {
		if diff := cmp.Diff(step.want, store.Set(step.set)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", step.name, diff)
		}
	}
	if store.Lookup(kind) != nil {
		t.Error("the kind is still known after its customizations are gone")
	}
}

func TestAFingerprintIsAboutItsOperations(t *testing.T) {
	store := declarative.New()
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	health := func(verdict string) map[string]string {
		return map[string]string{"InterpretHealth": "function InterpretHealth(obj) return " + verdict + " end"}
	}
	print := func(operations ...configv1alpha1.InterpreterOperation) string {
		return interpret.Chain(store).Fingerprint(kind, operations...)
	}
	replicas, judging := configv1alpha1.InterpreterOperationInterpretReplica, configv1alpha1.InterpreterOperationInterpretHealth
	if print(replicas, judging) != "" {
		t.Error("there are no scripts, but there is a fingerprint")
	}
	store.Set(customizations{customization("a", replicasOf("1")), customization("b", health("true"))})
	counted, judged := print(replicas), print(judging)
	if counted == "" || judged == "" || counted == judged {
		t.Errorf("fingerprints are %q and %q", counted, judged)
	}
	store.Set(customizations{customization("a", replicasOf("1")), customization("b", health("false"))})
	if print(replicas) != counted || print(judging) == judged {
		t.Error("the fingerprint does not change with its own operation alone")
	}
}

func TestAScriptThatDoesNotCompileFailsLoudly(t *testing.T) {
	_, err := interpreter("GetReplicas", "function GetReplicas(").Replicas(context.Background(), thing(t, "{}"))
	wantError(t, err, "customization c")
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		script string
		want   string
	}{
		"function":           {"function InterpretHealth(obj) return true end", ""},
		"assigned function":  {"InterpretHealth = function(obj) return true end", ""},
		"with helpers":       {"local kube = require('kube')\nlocal function ok() return true end\nfunction InterpretHealth(obj) return ok() end", ""},
		"broken":             {"function InterpretHealth(obj) return true", "syntax error"},
		"another name":       {"function GetHealth(obj) return true end", "does not define the function InterpretHealth"},
		"a method":           {"t = {} function t:InterpretHealth(obj) return true end", "does not define"},
		"a local function":   {"local function InterpretHealth(obj) return true end", "does not define"},
		"a zero byte":        {"function InterpretHealth(obj) return '\x00concat' end", "zero byte"},
		"too long":           {strings.Repeat(" ", 300<<10), "longer than"},
		"a goto to nowhere":  {"function InterpretHealth(obj) goto nowhere end", "nowhere"},
		"a break of nothing": {"function InterpretHealth(obj) break end", "break"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			errs := declarative.Check(customization("c", map[string]string{"InterpretHealth": tc.script}))
			if tc.want == "" {
				if len(errs) > 0 {
					t.Errorf("got %v, want no error", errs)
				}
				return
			}
			if len(errs) != 1 || errs[0].Field != "spec.customizations.healthInterpretation.luaScript" || !strings.Contains(errs[0].Error(), tc.want) {
				t.Errorf("got %v, want one with %q", errs, tc.want)
			}
		})
	}
	t.Run("an empty script is no script", func(t *testing.T) {
		if errs := declarative.Check(customization("c", map[string]string{"InterpretHealth": ""})); len(errs) > 0 {
			t.Errorf("got %v", errs)
		}
	})
}

func FuzzCheck(f *testing.F) {
	f.Add("function InterpretHealth(obj) local t = {1, ...} t[1] = 'a' .. 'b' return true end")
	f.Fuzz(func(t *testing.T, script string) {
		bounded.Run(t, func() { declarative.Check(customization("c", map[string]string{"InterpretHealth": script})) })
	})
}

func BenchmarkHealth(b *testing.B) {
	store := declarative.New()
	store.Set(customizations{customization("c", map[string]string{"InterpretHealth": "function InterpretHealth(obj) return obj.metadata.name == 'x' end"})})
	i, obj := interpret.Chain(store), thing(&testing.T{}, "{spec: {a: 1}}")
	for b.Loop() {
		if _, err := i.Health(context.Background(), obj); err != nil {
			b.Fatal(err)
		}
	}
}
