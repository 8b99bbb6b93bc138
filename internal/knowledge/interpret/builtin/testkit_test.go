package builtin_test

import (
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
)

func newInterpreter() interpret.Interpreter {
	return interpret.Chain(builtin.New(testingclock.NewFakePassiveClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))))
}

// object reads an object as a client of an API server does: whole numbers are int64.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: fields(t, text)}
}

func fields(t *testing.T, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("reading %q: %v", text, err)
	}
	result := map[string]any{}
	if err := utiljson.Unmarshal(data, &result); err != nil {
		t.Fatalf("reading %q: %v", text, err)
	}
	return result
}

func decode(t *testing.T, raw *runtime.RawExtension) map[string]any {
	t.Helper()
	if raw == nil {
		return nil
	}
	result := map[string]any{}
	if err := json.Unmarshal(raw.Raw, &result); err != nil {
		t.Fatalf("decoding %s: %v", raw.Raw, err)
	}
	return result
}
