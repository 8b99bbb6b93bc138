package compare_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/flagship-k8s/flagship/internal/features/crds/compare"
)

// specOf is a definition with one version v1 of the given schema for .spec.
func specOf(t *testing.T, fields string) *apiextensionsv1.CustomResourceDefinitionSpec {
	t.Helper()
	var field apiextensionsv1.JSONSchemaProps
	if err := yaml.UnmarshalStrict([]byte(fields), &field); err != nil {
		t.Fatalf("%s: %v", fields, err)
	}
	spec := parse(t, "{group: g.example.io, scope: Namespaced, names: {plural: gears, kind: Gear}, versions: [{name: v1, served: true, storage: true}]}")
	spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": field},
	}}
	return spec
}

func parse(t *testing.T, text string) *apiextensionsv1.CustomResourceDefinitionSpec {
	t.Helper()
	spec := &apiextensionsv1.CustomResourceDefinitionSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), spec); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(spec)
	return spec
}

func texts(changes []compare.Change) []string {
	list := []string{}
	for _, c := range changes {
		list = append(list, c.Class.String()+": "+c.String())
	}
	return list
}

func TestChangesOfSchemasAreClassed(t *testing.T) {
	object := func(properties string) string { return "{type: object, properties: {" + properties + "}}" }
	tests := map[string]struct {
		from, to string
		want     []string
	}{
		"nothing":             {object("a: {type: string}"), object("a: {type: string}"), nil},
		"field added":         {object("a: {type: string}"), object("a: {type: string}, b: {type: string}"), nil},
		"description changed": {object("a: {type: string, description: x}"), object("a: {type: string, description: y}"), nil},
		"field removed":       {object("a: {type: string}"), object(""), []string{"breaking: v1 .spec.a is removed"}},
		"field of an item removed": {
			object("l: {type: array, items: {type: object, properties: {a: {type: string}}}}"),
			object("l: {type: array, items: {type: object, properties: {}}}"), []string{"breaking: v1 .spec.l[].a is removed"},
		},
		"field of a value removed": {
			object("m: {type: object, additionalProperties: {type: object, properties: {a: {type: string}}}}"),
			object("m: {type: object, additionalProperties: {type: object, properties: {}}}"), []string{"breaking: v1 .spec.m{}.a is removed"},
		},
		"field that is kept unknown": {
			object("a: {type: string}"), "{type: object, x-kubernetes-preserve-unknown-fields: true}", nil,
		},
		"unknown fields not kept any more": {
			"{type: object, x-kubernetes-preserve-unknown-fields: true}", "{type: object}",
			[]string{"breaking: v1 .spec does not keep unknown fields any more"},
		},
		"type changed":             {object("a: {type: string}"), object("a: {type: integer}"), []string{"breaking: v1 .spec.a changes its type from string to integer"}},
		"integer becomes number":   {object("a: {type: integer}"), object("a: {type: number}"), nil},
		"integer becomes either":   {object("a: {type: integer}"), object("a: {x-kubernetes-int-or-string: true}"), nil},
		"either becomes integer":   {object("a: {x-kubernetes-int-or-string: true}"), object("a: {type: integer}"), []string{"breaking: v1 .spec.a changes its type from integer or string to integer"}},
		"map becomes fixed fields": {object("m: {type: object, additionalProperties: {type: string}}"), object("m: {type: object, properties: {a: {type: string}}}"), []string{"breaking: v1 .spec.m is no map of any keys any more"}},

		"required":                   {object("a: {type: string}"), "{type: object, required: [a], properties: {a: {type: string}}}", []string{"risky: v1 .spec.a is required"}},
		"required with default":      {object(""), "{type: object, required: [a], properties: {a: {type: string, default: x}}}", nil},
		"required loses its default": {"{type: object, required: [a], properties: {a: {type: string, default: x}}}", "{type: object, required: [a], properties: {a: {type: string}}}", []string{"risky: v1 .spec.a is required"}},
		"required no more":           {"{type: object, required: [a], properties: {a: {type: string}}}", object("a: {type: string}"), nil},

		"longest shorter":   {object("a: {type: string, maxLength: 9}"), object("a: {type: string, maxLength: 8}"), []string{"risky: v1 .spec.a has a lower maxLength: 8"}},
		"longest longer":    {object("a: {type: string, maxLength: 9}"), object("a: {type: string, maxLength: 10}"), nil},
		"longest no more":   {object("a: {type: string, maxLength: 9}"), object("a: {type: string}"), nil},
		"most lower":        {object("a: {type: integer}"), object("a: {type: integer, maximum: 3}"), []string{"risky: v1 .spec.a has a lower maximum: 3"}},
		"least higher":      {object("a: {type: integer, minimum: 1}"), object("a: {type: integer, minimum: 2}"), []string{"risky: v1 .spec.a has a higher minimum: 2"}},
		"fewer items":       {object("a: {type: array, maxItems: 3, items: {type: string}}"), object("a: {type: array, maxItems: 2, items: {type: string}}"), []string{"risky: v1 .spec.a has a lower maxItems: 2"}},
		"other pattern":     {object("a: {type: string}"), object("a: {type: string, pattern: ^a}"), []string{"risky: v1 .spec.a has another pattern: ^a"}},
		"other format":      {object("a: {type: string}"), object("a: {type: string, format: email}"), []string{"risky: v1 .spec.a has another format: email"}},
		"value gone":        {object("a: {type: string, enum: [x, w]}"), object("a: {type: string, enum: [x, z]}"), []string{`risky: v1 .spec.a does not allow "w" any more`}},
		"values more":       {object("a: {type: string, enum: [x]}"), object("a: {type: string, enum: [x, y]}"), nil},
		"values listed":     {object("a: {type: string}"), object("a: {type: string, enum: [x]}"), []string{"risky: v1 .spec.a allows only some values"}},
		"null no more":      {object("a: {type: string, nullable: true}"), object("a: {type: string}"), []string{"risky: v1 .spec.a may not be null any more"}},
		"list becomes set":  {object("a: {type: array, items: {type: string}}"), object("a: {type: array, items: {type: string}, x-kubernetes-list-type: set}"), []string{"risky: v1 .spec.a is a list of another type: set"}},
		"set becomes list":  {object("a: {type: array, items: {type: string}, x-kubernetes-list-type: set}"), object("a: {type: array, items: {type: string}}"), nil},
		"rule added":        {object("a: {type: integer}"), object("a: {type: integer, x-kubernetes-validations: [{rule: self > 3}]}"), []string{"risky: v1 .spec.a has a new rule: self > 3"}},
		"rule reworded":     {object("a: {type: integer, x-kubernetes-validations: [{rule: self > 3, message: x}]}"), object("a: {type: integer, x-kubernetes-validations: [{rule: self > 3, message: y}]}"), nil},
		"rule removed":      {object("a: {type: integer, x-kubernetes-validations: [{rule: self > 3}]}"), object("a: {type: integer}"), nil},
		"alternative added": {object("a: {type: integer}"), object("a: {type: integer, anyOf: [{minimum: 3}]}"), []string{"risky: v1 .spec.a has another anyOf"}},

		"the worst first": {
			object("a: {type: string}, b: {type: string}"), object("a: {type: string, maxLength: 3}"),
			[]string{"breaking: v1 .spec.b is removed", "risky: v1 .spec.a has a lower maxLength: 3"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := texts(compare.Compare(specOf(t, tc.from), specOf(t, tc.to), []string{"v1"}))
			if diff := cmp.Diff(append([]string{}, tc.want...), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestChangesOfDefinitionsAreClassed(t *testing.T) {
	const gear = "group: g.example.io, scope: Namespaced, names: {plural: gears, kind: Gear, shortNames: [g]}"
	const v1, beta = "{name: v1, served: true, storage: true}", "{name: v1beta1, served: true, storage: false}"
	tests := map[string]struct {
		from, to string
		stored   []string
		want     []string
	}{
		"version added":               {"{" + gear + ", versions: [" + v1 + "]}", "{" + gear + ", versions: [" + v1 + ", " + beta + "]}", []string{"v1"}, nil},
		"storage moves":               {"{" + gear + ", versions: [" + v1 + ", " + beta + "]}", "{" + gear + ", versions: [{name: v1, served: true, storage: false}, {name: v1beta1, served: true, storage: true}]}", []string{"v1"}, nil},
		"version deprecated":          {"{" + gear + ", versions: [" + v1 + "]}", "{" + gear + ", versions: [{name: v1, served: true, storage: true, deprecated: true}]}", []string{"v1"}, nil},
		"version not served any more": {"{" + gear + ", versions: [" + v1 + ", " + beta + "]}", "{" + gear + ", versions: [" + v1 + ", {name: v1beta1, served: false, storage: false}]}", []string{"v1"}, []string{"breaking: v1beta1 is not served any more"}},
		"served version dropped":      {"{" + gear + ", versions: [" + v1 + ", " + beta + "]}", "{" + gear + ", versions: [" + v1 + "]}", []string{"v1"}, []string{"breaking: v1beta1 is dropped while it is served"}},
		"idle version dropped":        {"{" + gear + ", versions: [" + v1 + ", {name: v1beta1, served: false, storage: false}]}", "{" + gear + ", versions: [" + v1 + "]}", []string{"v1"}, nil},
		"stored version dropped": {
			"{" + gear + ", versions: [" + v1 + ", " + beta + "]}", "{" + gear + ", versions: [" + v1 + "]}", []string{"v1beta1", "v1"},
			[]string{"impossible: v1beta1 is dropped, but objects may be stored in it (status.storedVersions)"},
		},
		"other scope": {
			"{" + gear + ", versions: [" + v1 + "]}", "{group: g.example.io, scope: Cluster, names: {plural: gears, kind: Gear, shortNames: [g]}, versions: [" + v1 + "]}", nil,
			[]string{`impossible: spec.scope changes from "Namespaced" to "Cluster", which takes another definition`},
		},
		"other kind": {
			"{" + gear + ", versions: [" + v1 + "]}", "{group: g.example.io, scope: Namespaced, names: {plural: gears, kind: Wheel, shortNames: [g]}, versions: [" + v1 + "]}", nil,
			[]string{`impossible: spec.names.kind changes from "Gear" to "Wheel", which takes another definition`},
		},
		"short name gone": {
			"{" + gear + ", versions: [" + v1 + "]}", "{group: g.example.io, scope: Namespaced, names: {plural: gears, kind: Gear}, versions: [" + v1 + "]}", nil,
			[]string{`risky: spec.names.shortNames loses "g"`},
		},
		"status gone": {
			"{" + gear + ", versions: [{name: v1, served: true, storage: true, subresources: {status: {}, scale: {specReplicasPath: .spec.r, statusReplicasPath: .status.r}}}]}", "{" + gear + ", versions: [" + v1 + "]}", nil,
			[]string{"breaking: v1 subresources.scale is removed", "breaking: v1 subresources.status is removed"},
		},
		"status new": {
			"{" + gear + ", versions: [" + v1 + "]}", "{" + gear + ", versions: [{name: v1, served: true, storage: true, subresources: {status: {}}}]}", nil,
			[]string{"risky: v1 subresources.status is added: writes of whole objects do not reach the status any more"},
		},
		"selector gone": {
			"{" + gear + ", versions: [{name: v1, served: true, storage: true, selectableFields: [{jsonPath: .spec.a}]}]}", "{" + gear + ", versions: [" + v1 + "]}", nil,
			[]string{"risky: v1 .spec.a cannot be selected by any more"},
		},
		"converted otherwise": {
			"{" + gear + ", versions: [" + v1 + ", " + beta + "]}", "{" + gear + ", conversion: {strategy: Webhook}, versions: [" + v1 + ", " + beta + "]}", nil,
			[]string{"risky: spec.conversion.strategy changes from None to Webhook"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := texts(compare.Compare(parse(t, tc.from), parse(t, tc.to), tc.stored))
			if diff := cmp.Diff(append([]string{}, tc.want...), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDifferencesNamePaths(t *testing.T) {
	const before = "{group: g.example.io, scope: Namespaced, names: {plural: gears, kind: Gear}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}"
	tests := map[string]struct {
		after string
		want  []string
	}{
		"none":          {before, nil},
		"defaults":      {"{group: g.example.io, scope: Namespaced, conversion: {strategy: None}, names: {plural: gears, singular: gear, kind: Gear, listKind: GearList}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}", nil},
		"version's own": {"{group: g.example.io, scope: Namespaced, names: {plural: gears, kind: Gear}, versions: [{name: v1, served: false, storage: true, schema: {openAPIV3Schema: {type: object}}}]}", []string{"spec.versions[v1].served"}},
		"more versions": {"{group: g.example.io, scope: Cluster, names: {plural: gears, kind: Gear}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}, {name: v2, served: true, storage: false}]}", []string{"spec.scope", "spec.versions[v2]"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, compare.Differences(parse(t, before), parse(t, tc.after))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
