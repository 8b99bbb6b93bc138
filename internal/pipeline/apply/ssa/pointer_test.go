package ssa

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpand(t *testing.T) {
	obj := object(t, `{metadata: {annotations: {example.io/a: x, example.io/ab: y}}, spec: {containers: [{name: c, args: [x, z]}, {name: d}], rules: [{from: 1}]}}`)
	for pointer, want := range map[string][]string{
		"/metadata/annotations/example.io~1a": {"/metadata/annotations/example.io/a"},
		"/metadata/annotations/example.io/a":  {"/metadata/annotations/example.io/a"},
		"/metadata/annotations/*":             {"/metadata/annotations/example.io/a", "/metadata/annotations/example.io/ab"},
		"/spec/containers/*/name":             {`/spec/containers[name="c"]/name`, `/spec/containers[name="d"]/name`},
		"/spec/containers[*]/args":            {`/spec/containers[name="c"]/args`},
		`/spec/containers[name="d"]/name`:     {`/spec/containers[name="d"]/name`},
		"/spec/containers/0/args/1":           {`/spec/containers[name="c"]/args[="z"]`},
		"/spec/rules/*/from":                  {"/spec/rules[]/from"},
		"/spec/cont":                          nil,
		"/spec/containers/9":                  nil,
		"/spec/containers/name":               nil,
		"/*/rules":                            {"/spec/rules"},
		"spec":                                nil,
	} {
		var got []string
		Expand(obj.Object, pointer, func(path string) { got = append(got, path) })
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", pointer, diff)
		}
	}
}
