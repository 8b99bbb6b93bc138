package ssa

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// decode reads YAML as an API server's JSON is read.
func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

func TestUnowned(t *testing.T) {
	tests := map[string]struct {
		reason string
		value  string
		fields string
		want   []string
	}{
		"Everything": {
			"leaves, maps and items of lists that the entry names are owned",
			`{spec: {replicas: 1, containers: [{name: a, image: x}, {name: b}]}}`,
			`{"f:spec": {"f:replicas": {}, "f:containers": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:image": {}}, 'k:{"name":"b"}': {".": {}, "f:name": {}}}}}`,
			nil,
		},
		"TakenLeaf": {
			"a field that another manager set is gone from the entry",
			`{spec: {replicas: 1, paused: true}}`, `{"f:spec": {"f:paused": {}}}`, []string{"/spec/replicas"},
		},
		"TakenInItem": {
			"a field of one item of a list",
			`{spec: {containers: [{name: a, image: x}, {name: b, image: y}]}}`,
			`{"f:spec": {"f:containers": {'k:{"name":"a"}': {"f:name": {}, "f:image": {}}, 'k:{"name":"b"}': {"f:name": {}}}}}`,
			[]string{`/spec/containers[name="b"]/image`},
		},
		"TakenItem": {
			"a whole item: its fields are not listed as well",
			`{spec: {containers: [{name: a, image: x}]}}`, `{"f:spec": {"f:containers": {'k:{"name":"z"}': {}}}}`,
			[]string{`/spec/containers[name="a"]`},
		},
		"DefaultedKey": {
			"a key the object leaves to its default matches",
			`{ports: [{containerPort: 80}]}`,
			`{"f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {"f:containerPort": {}}}}`,
			nil,
		},
		"Atomic": {
			"an entry without children owns all that is below",
			`{args: [a, b], selector: {x: y}, empty: {}}`, `{"f:args": {}, "f:selector": {}, "f:empty": {}}`, nil,
		},
		"Set": {
			"a list of values",
			`{finalizers: [a, b, 3]}`, `{"f:finalizers": {'v:"a"': {}, 'v:3': {}}}`, []string{`/finalizers[="b"]`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			unowned(decode(t, tc.value), decode(t, tc.fields), "", func(path string) { got = append(got, path) })
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLocate(t *testing.T) {
	const object = `
metadata: {annotations: {a.b/c: x, a: y}}
spec:
  containers:
  - {name: a, image: x, ports: [{name: web, containerPort: 80}], env: [{name: "odd]\"", value: v}]}
  args: [one, two]
`
	tests := map[string]struct {
		reason string
		path   string
		want   string // in our form; empty: there is no such place
	}{
		"Field":         {"a plain field", ".spec.args", "/spec/args"},
		"DottedKey":     {"dots in keys are recognized by the fields of the object", ".metadata.annotations.a.b/c", "/metadata/annotations/a.b/c"},
		"ShorterKey":    {"a key that begins like another", ".metadata.annotations.a", "/metadata/annotations/a"},
		"Item":          {"an item by its key", `.spec.containers[name="a"].image`, `/spec/containers[name="a"]/image`},
		"SeveralKeys":   {"an item by several keys, one of which has its default", `.spec.containers[name="a"].ports[containerPort=80,protocol="TCP"].name`, `/spec/containers[name="a"]/ports[name="web"]/name`},
		"QuotedBracket": {"a bracket inside quotes", `.spec.containers[name="a"].env[name="odd]\""].value`, `/spec/containers[name="a"]/env[name="odd]\""]/value`},
		"Value":         {"an item of a list of values", `.spec.args[="two"]`, `/spec/args[="two"]`},
		"Index":         {"an item by its position", `.spec.args[0]`, `/spec/args[="one"]`},
		"Missing":       {"a field that is not there", ".spec.replicas", ""},
		"MissingItem":   {"an item that is not there", `.spec.containers[name="z"].image`, ""},
		"Garbage":       {"no path at all", "spec[", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := Locate(Spot{Value: decode(t, object)}, tc.path)
			if ok != (tc.want != "") || got.path != tc.want {
				t.Errorf("%s: got %q, %t, want %q", tc.reason, got.path, ok, tc.want)
			}
		})
	}
}

func TestDrop(t *testing.T) {
	fields := decode(t, `{spec: {containers: [{name: a, image: x}, {name: b}], replicas: 1}}`)
	for _, path := range []string{`.spec.containers[name="a"].image`, `.spec.containers[name="b"]`, ".spec.replicas"} {
		s, ok := Locate(Spot{Value: fields}, path)
		if !ok {
			t.Fatalf("%s not found", path)
		}
		s.Drop()
	}
	if diff := cmp.Diff(decode(t, `{spec: {containers: [{name: a}]}}`), fields); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
