package compare

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func TestObjectsAreValidatedAsByTheirAPIServer(t *testing.T) {
	const spec = `
name: v1
served: true
storage: true
schema:
  openAPIV3Schema:
    type: object
    properties:
      spec:
        type: object
        required: [size]
        properties:
          size: {type: integer, maximum: 10}
          grade: {type: string, default: fine, enum: [fine, rough]}
          tags: {type: array, items: {type: string}, x-kubernetes-list-type: set}
          low: {type: integer}
          high: {type: integer}
        x-kubernetes-validations:
        - {rule: "!has(self.low) || !has(self.high) || self.low <= self.high", message: low is above high}
`
	tests := map[string]struct {
		object  string
		loses   []string
		invalid string
	}{
		"fine":             {"{spec: {size: 3}}", nil, ""},
		"a field unknown":  {"{spec: {size: 3, colour: red}}", []string{"spec.colour"}, ""},
		"too large":        {"{spec: {size: 11}}", nil, "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"},
		"missing":          {"{spec: {}}", nil, "spec.size: Required value"},
		"other value":      {"{spec: {size: 3, grade: raw}}", nil, `spec.grade: Unsupported value: "raw": supported values: "fine", "rough"`},
		"twice in a set":   {"{spec: {size: 3, tags: [a, a]}}", nil, `spec.tags[1]: Duplicate value: "a"`},
		"breaks a rule":    {"{spec: {size: 3, low: 2, high: 1}}", nil, "spec: Invalid value: low is above high"},
		"metadata is kept": {"{apiVersion: g/v1, kind: Gear, metadata: {name: a, labels: {b: c}}, spec: {size: 3}}", nil, ""},
	}
	var version apiextensionsv1.CustomResourceDefinitionVersion
	if err := yaml.UnmarshalStrict([]byte(spec), &version); err != nil {
		t.Fatal(err)
	}
	j, err := NewValidator(&version)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			obj := map[string]any{}
			if err := yaml.Unmarshal([]byte("{apiVersion: g.example.io/v1, kind: Gear}"), &obj); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(tc.object), &obj); err != nil {
				t.Fatal(err)
			}
			got := j.Validate(t.Context(), whole(obj))
			if diff := cmp.Diff(Outcome{Loses: tc.loses, Invalid: tc.invalid}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// whole has integers where YAML gives floats, as an object that was read from an API server.
func whole(value map[string]any) map[string]any {
	for key, child := range value {
		switch v := child.(type) {
		case float64:
			value[key] = int64(v)
		case map[string]any:
			whole(v)
		}
	}
	return value
}
