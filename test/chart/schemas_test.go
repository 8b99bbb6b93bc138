package chart

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/resource"
	"github.com/yannh/kubeconform/pkg/validator"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// kubernetesVersions are modules with a Kubernetes: the one that the binaries are built of, and the oldest one that the chart is for.
func kubernetesVersions() map[string]string {
	return map[string]string{"Newest": "../..", "Oldest": "../skew/v1.30"}
}

// newValidator returns kubeconform with the schemas of a Kubernetes, and those of the Prometheus operator in testdata. Fields that a schema does
// not have are errors. Nothing is downloaded: the OpenAPI document of Kubernetes is in the module cache, because the binaries are built of it.
func newValidator(t *testing.T, module string) validator.Validator {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	list.Dir, list.Env = module, append(os.Environ(), "GOPROXY=off")
	output, err := list.Output()
	source := strings.TrimSpace(string(output))
	if (err != nil || source == "") && module != kubernetesVersions()["Newest"] {
		t.Skipf("the Kubernetes of %s is not in the module cache: make test-skew downloads it", module)
	}
	if err != nil {
		t.Fatalf("looking for k8s.io/kubernetes: %v", err)
	}
	dir := t.TempDir()
	writeSchemas(t, dir, filepath.Join(source, "api/openapi-spec/swagger.json"))
	definitions, err := filepath.Glob("testdata/monitoring.coreos.com_*.yaml")
	if err != nil || len(definitions) == 0 {
		t.Fatalf("there are no definitions of the Prometheus operator in testdata: %v", err)
	}
	for _, file := range definitions {
		writeDefinedSchema(t, dir, file)
	}
	v, err := validator.New([]string{dir + "/{{.ResourceKind}}{{.KindSuffix}}.json"}, validator.Opts{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// writeSchemas writes a file for each kind of an OpenAPI document of version 2.
func writeSchemas(t *testing.T, dir, document string) {
	t.Helper()
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	if err := json.Unmarshal(content, &api); err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	const all = "definitions.json"
	for name, definition := range api.Definitions {
		restrict(definition)
		if name == "io.k8s.apimachinery.pkg.api.resource.Quantity" {
			definition["type"] = []string{"string", "number"} // as API servers accept it
		}
		kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
		for _, kind := range kinds {
			kind := kind.(map[string]any)
			gvk := schema.GroupVersionKind{Group: kind["group"].(string), Version: kind["version"].(string), Kind: kind["kind"].(string)}
			writeSchema(t, filepath.Join(dir, fileOf(gvk)), map[string]any{"$ref": all + "#/definitions/" + name})
		}
	}
	writeSchema(t, filepath.Join(dir, all), map[string]any{"definitions": api.Definitions})
}

// writeDefinedSchema writes files for the versions of a CustomResourceDefinition.
func writeDefinedSchema(t *testing.T, dir, file string) {
	t.Helper()
	definition := definitionIn(t, file)
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		version := version.(map[string]any)
		root, _, err := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		restrict(root)
		writeSchema(t, filepath.Join(dir, fileOf(schema.GroupVersionKind{Group: group, Version: version["name"].(string), Kind: kind})), root)
	}
}

func definitionIn(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, definition); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return definition
}

// fileOf is where kubeconform looks for the schema of a kind.
func fileOf(kind schema.GroupVersionKind) string {
	name := strings.ToLower(kind.Kind)
	if group, _, _ := strings.Cut(kind.Group, "."); group != "" {
		name += "-" + group
	}
	return name + "-" + kind.Version + ".json"
}

func writeSchema(t *testing.T, file string, content any) {
	t.Helper()
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// restrict makes a JSON schema of one of OpenAPI: an object has no fields besides those of its schema, and a value that is a number or a string
// is not a string alone.
func restrict(s map[string]any) {
	delete(s, "description")
	if s["format"] == "int-or-string" {
		s["type"] = []string{"integer", "string"}
		delete(s, "format")
	}
	properties, ok := s["properties"].(map[string]any)
	if ok && s["additionalProperties"] == nil && s["x-kubernetes-preserve-unknown-fields"] != true {
		s["additionalProperties"] = false
	}
	for _, property := range properties {
		restrict(property.(map[string]any))
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := s[key].(map[string]any); ok {
			restrict(inner)
		}
	}
}

// validate returns what kubeconform finds in an object, or nil.
func validate(t *testing.T, v validator.Validator, object *unstructured.Unstructured) error {
	t.Helper()
	content, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	result := v.ValidateResource(resource.Resource{Bytes: content})
	if result.Status != validator.Valid && result.Err == nil {
		t.Fatalf("%s %s has the status %v without an error", object.GetKind(), object.GetName(), result.Status)
	}
	return result.Err
}

// TestObjectsAreValid: each object of each installation is one of its kind for kubeconform, and objects that are not are refused.
func TestObjectsAreValid(t *testing.T) {
	for version, module := range kubernetesVersions() {
		t.Run(version, func(t *testing.T) {
			v := newValidator(t, module)
			for name, i := range installations() {
				objects, err := render(t, i)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				for _, object := range objects {
					if err := validate(t, v, object); err != nil {
						t.Errorf("%s: %s %s: %v", name, object.GetKind(), object.GetName(), err)
					}
				}
			}
			expectRefused(t, v)
		})
	}
}

// expectRefused breaks objects of the chart, and expects that kubeconform names what is wrong.
func expectRefused(t *testing.T, v validator.Validator) {
	t.Helper()
	for name, tc := range map[string]struct {
		kind  string
		value any
		field []string
		want  string
	}{
		"UnknownField":   {"StatefulSet", int64(3), []string{"spec", "replica"}, "replica"},
		"UnknownInside":  {"StatefulSet", int64(3), []string{"spec", "template", "spec", "graceSeconds"}, "graceSeconds"},
		"NoNumber":       {"StatefulSet", "three", []string{"spec", "replicas"}, "/spec/replicas"},
		"NoText":         {"ConfigMap", int64(1), []string{"data", "server.yaml"}, "/data"},
		"NoList":         {"NetworkPolicy", "Ingress", []string{"spec", "policyTypes"}, "/spec/policyTypes"},
		"Missing":        {"StatefulSet", nil, []string{"spec", "selector"}, "selector"},
		"UnknownKind":    {"StatefulSet", "StatefulSets", []string{"kind"}, "could not find schema"},
		"UnknownVersion": {"PodDisruptionBudget", "policy/v3", []string{"apiVersion"}, "could not find schema"},
		"MonitorField":   {"ServiceMonitor", "30s", []string{"spec", "interval"}, "interval"},
		"MonitorMissing": {"ServiceMonitor", nil, []string{"spec", "selector"}, "selector"},
		"RuleGroups":     {"PrometheusRule", "none", []string{"spec", "groups"}, "/spec/groups"},
	} {
		objects, err := render(t, installations()["Three"])
		if err != nil {
			t.Fatal(err)
		}
		broken := findKind(objects, tc.kind)
		if broken == nil {
			t.Fatalf("%s: the chart has no %s", name, tc.kind)
		}
		if tc.value == nil {
			unstructured.RemoveNestedField(broken.Object, tc.field...)
		} else if err := unstructured.SetNestedField(broken.Object, tc.value, tc.field...); err != nil {
			t.Fatal(err)
		}
		if err := validate(t, v, broken); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, tc.want)
		}
	}
}

// findKind returns the first object of a kind, or nil.
func findKind(objects []*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	for _, object := range objects {
		if object.GetKind() == kind {
			return object
		}
	}
	return nil
}
