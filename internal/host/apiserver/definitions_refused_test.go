package apiserver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"
)

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// answer is what the hub says to one request.
type answer struct {
	code   int
	header http.Header
	body   map[string]any
	text   string
}

// call sends a request; a body is YAML, which JSON is too, unless a content type says otherwise. Headers come in pairs.
func call(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, hub.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/yaml")
	request.Header.Set("Accept", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := admin(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{code: response.StatusCode, header: response.Header, text: string(text)}
	_ = json.Unmarshal(text, &a.body) // what is no object stays text
	return a
}

// causes are the reasons and fields of a refusal.
func (a answer) causes() []string {
	var list []string
	details, _ := a.body["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	for _, entry := range causes {
		cause, _ := entry.(map[string]any)
		list = append(list, fmt.Sprintf("%v %v", cause["reason"], cause["field"]))
	}
	return list
}

// at reads a field, as "status.conditions" or, in lists, "items.0.spec".
func (a answer) at(path string) any {
	var value any = a.body
	for _, key := range strings.Split(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[key]
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// wants fails the test unless the answer has the code.
func (a answer) wants(t *testing.T, code int) answer {
	t.Helper()
	if a.code != code {
		t.Fatalf("got %d, want %d: %s", a.code, code, a.text)
	}
	return a
}

// things defines the kind Thing of the group, with a merge patch on top.
func things(t *testing.T, group, patch string) string {
	t.Helper()
	base := fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, group)
	return patched(t, base, patch)
}

func patched(t *testing.T, base, patch string) string {
	t.Helper()
	var documents [2][]byte
	for i, text := range []string{base, patch} {
		document, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		documents[i] = document
	}
	if strings.TrimSpace(patch) == "" {
		return string(documents[0])
	}
	merged, err := jsonpatch.MergePatch(documents[0], documents[1])
	if err != nil {
		t.Fatal(err)
	}
	return string(merged)
}

// schemaOf is a patch that gives version v1 a schema.
func schemaOf(schema string) string {
	return "{spec: {versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: " + schema + "}}]}}"
}

// TestDefinitionsAreRefused: what is wrong with a definition is said when it is written, with the field.
func TestDefinitionsAreRefused(t *testing.T) {
	version := func(text string) string {
		return "{spec: {versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {num: {type: integer}, s: {type: string}, l: {type: array, items: {type: string}}}}, status: {type: object}}}}, " + text + "}]}}"
	}
	const open = "schema: {openAPIV3Schema: {type: object}}"
	tests := map[string]struct{ patch, cause string }{
		"name is not plural and group":    {"{metadata: {name: other.refused.example.com}}", "FieldValueInvalid metadata.name"},
		"group without a dot":             {"{metadata: {name: things.refused}, spec: {group: refused}}", "FieldValueInvalid spec.group"},
		"protected group":                 {"{metadata: {name: things.x.k8s.io}, spec: {group: x.k8s.io}}", "FieldValueRequired metadata.annotations[api-approved.kubernetes.io]"},
		"a group of Kubernetes":           {"{metadata: {name: things.kubernetes.io}, spec: {group: kubernetes.io}}", "FieldValueRequired metadata.annotations[api-approved.kubernetes.io]"},
		"below a group of Kubernetes":     {"{metadata: {name: things.x.kubernetes.io}, spec: {group: x.kubernetes.io}}", "FieldValueRequired metadata.annotations[api-approved.kubernetes.io]"},
		"unknown scope":                   {"{spec: {scope: Nowhere}}", "FieldValueNotSupported spec.scope"},
		"no scope":                        {"{spec: {scope: null}}", "FieldValueRequired spec.scope"},
		"plural in upper case":            {"{metadata: {name: Things.refused.example.com}, spec: {names: {plural: Things}}}", "FieldValueInvalid spec.names.plural"},
		"singular is no label":            {"{spec: {names: {singular: a_b}}}", "FieldValueInvalid spec.names.singular"},
		"short name is no label":          {"{spec: {names: {shortNames: [A]}}}", "FieldValueInvalid spec.names.shortNames[0]"},
		"category is no label":            {"{spec: {names: {categories: [A]}}}", "FieldValueInvalid spec.names.categories[0]"},
		"kind is its list's kind":         {"{spec: {names: {listKind: Thing}}}", "FieldValueInvalid spec.names.listKind"},
		"no versions":                     {"{spec: {versions: []}}", "FieldValueInvalid spec.versions"},
		"version twice":                   {"{spec: {versions: [{name: v1, served: true, storage: true, " + open + "}, {name: v1, served: true, storage: false, " + open + "}]}}", "FieldValueInvalid spec.versions"},
		"no version stored":               {"{spec: {versions: [{name: v1, served: true, storage: false, " + open + "}]}}", "FieldValueInvalid spec.versions"},
		"two versions stored":             {"{spec: {versions: [{name: v1, served: true, storage: true, " + open + "}, {name: v2, served: true, storage: true, " + open + "}]}}", "FieldValueInvalid spec.versions"},
		"version is no label":             {"{spec: {versions: [{name: V_1, served: true, storage: true, " + open + "}]}}", "FieldValueInvalid spec.versions[0].name"},
		"no schema":                       {"{spec: {versions: [{name: v1, served: true, storage: true}]}}", "FieldValueRequired spec.versions[0].schema.openAPIV3Schema"},
		"unknown fields kept everywhere":  {"{spec: {preserveUnknownFields: true}}", "FieldValueInvalid spec.preserveUnknownFields"},
		"warning without deprecation":     {version("deprecationWarning: x"), "FieldValueInvalid spec.versions[0].deprecationWarning"},
		"scale path outside spec":         {version("subresources: {scale: {specReplicasPath: .x, statusReplicasPath: .status.num}}"), "FieldValueInvalid spec.subresources.scale.specReplicasPath"},
		"scale path with brackets":        {version("subresources: {scale: {specReplicasPath: '.spec[\"num\"]', statusReplicasPath: .status.num}}"), "FieldValueInvalid spec.subresources.scale.specReplicasPath"},
		"scale status outside status":     {version("subresources: {scale: {specReplicasPath: .spec.num, statusReplicasPath: .spec.num}}"), "FieldValueInvalid spec.subresources.scale.statusReplicasPath"},
		"scale selector elsewhere":        {version("subresources: {scale: {specReplicasPath: .spec.num, statusReplicasPath: .status.num, labelSelectorPath: .x}}"), "FieldValueInvalid spec.subresources.scale.labelSelectorPath"},
		"column of unknown type":          {version("additionalPrinterColumns: [{name: A, type: thing, jsonPath: .spec.num}]"), "FieldValueInvalid spec.additionalPrinterColumns[0].type"},
		"column of unknown format":        {version("additionalPrinterColumns: [{name: A, type: integer, format: thing, jsonPath: .spec.num}]"), "FieldValueInvalid spec.additionalPrinterColumns[0].format"},
		"column with a path of no dot":    {version("additionalPrinterColumns: [{name: A, type: integer, jsonPath: spec.num}]"), "FieldValueInvalid spec.additionalPrinterColumns[0].JSONPath"},
		"column without a path":           {version("additionalPrinterColumns: [{name: A, type: integer}]"), "FieldValueRequired spec.additionalPrinterColumns[0].JSONPath"},
		"selectable list":                 {version("selectableFields: [{jsonPath: .spec.l}]"), "FieldValueInvalid spec.selectableFields[0].jsonPath"},
		"selectable field that is absent": {version("selectableFields: [{jsonPath: .spec.x}]"), "FieldValueInvalid spec.selectableFields[0].jsonPath"},
		"selectable metadata":             {version("selectableFields: [{jsonPath: .metadata.name}]"), "FieldValueInvalid spec.selectableFields[0].jsonPath"},
		"selectable twice":                {version("selectableFields: [{jsonPath: .spec.num}, {jsonPath: .spec.num}]"), "FieldValueDuplicate spec.selectableFields[1].jsonPath"},
		"selectable path with brackets":   {version("selectableFields: [{jsonPath: '.spec[\"num\"]'}]"), "FieldValueInvalid spec.selectableFields[0].jsonPath"},
		"nine selectable":                 {nineSelectable(), "FieldValueTooMany spec.selectableFields"},
		"webhook without a client":        {"{spec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1]}}}}", "FieldValueRequired spec.conversion.webhookClientConfig"},
		"webhook with both addresses":     {"{spec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://a.example.com', service: {namespace: a, name: a}}}}}}", "FieldValueRequired spec.conversion.webhookClientConfig"},
		"webhook over http":               {"{spec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'http://a.example.com'}}}}}", "FieldValueInvalid spec.conversion.webhookClientConfig.url"},
		"webhook with a user":             {"{spec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://u@a.example.com'}}}}}", "FieldValueInvalid spec.conversion.webhookClientConfig.url"},
		"webhook with a query":            {"{spec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://a.example.com?x=y'}}}}}", "FieldValueInvalid spec.conversion.webhookClientConfig.url"},
		"webhook with a fragment":         {"{spec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://a.example.com#x'}}}}}", "FieldValueInvalid spec.conversion.webhookClientConfig.url"},
		"webhook beyond all ports":        {"{spec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: a, name: a, port: 65536}}}}}}", "FieldValueInvalid spec.conversion.webhookClientConfig.service.port"},
		"webhook of unknown reviews":      {"{spec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v9], clientConfig: {url: 'https://a.example.com'}}}}}", "FieldValueInvalid spec.conversion.conversionReviewVersions"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := call(t, http.MethodPost, definitionsPath+"?dryRun=All", things(t, "refused.example.com", tc.patch)).wants(t, http.StatusUnprocessableEntity)
			expectCause(t, a, tc.cause)
		})
	}
}

// TestSchemasAreRefused: a schema has to be structural, and what it says has to make sense.
func TestSchemasAreRefused(t *testing.T) {
	object := func(properties string) string { return "{type: object, properties: {" + properties + "}}" }
	// Of a single version the API server speaks as of the definition itself.
	const at = "spec.validation.openAPIV3Schema"
	tests := map[string]struct{ schema, cause string }{
		"root is no object":       {"{type: string}", "FieldValueInvalid " + at + ".type"},
		"field without a type":    {object("a: {description: x}"), "FieldValueRequired " + at + ".properties[a].type"},
		"type in a combination":   {object("a: {type: string, allOf: [{type: string}]}"), "FieldValueForbidden " + at + ".properties[a].allOf[0].type"},
		"default in anyOf":        {object("a: {type: string, anyOf: [{default: x}]}"), "FieldValueForbidden " + at + ".properties[a].anyOf[0].default"},
		"properties in oneOf":     {object("a: {type: object, oneOf: [{additionalProperties: {minLength: 1}}]}"), "FieldValueForbidden " + at + ".properties[a].oneOf[0].additionalProperties"},
		"description in not":      {object("a: {type: string, not: {description: x}}"), "FieldValueForbidden " + at + ".properties[a].not.description"},
		"reference":               {object("a: {$ref: '#/x'}"), "FieldValueForbidden " + at + ".properties[a].$ref"},
		"definitions":             {"{type: object, definitions: {a: {type: string}}}", "FieldValueForbidden " + at + ".definitions"},
		"dependencies":            {"{type: object, dependencies: {a: [b]}}", "FieldValueForbidden " + at + ".dependencies"},
		"id":                      {"{type: object, id: x}", "FieldValueForbidden " + at + ".id"},
		"additional items":        {object("a: {type: array, items: {type: string}, additionalItems: true}"), "FieldValueForbidden " + at + ".properties[a].additionalItems"},
		"pattern properties":      {"{type: object, patternProperties: {a: {type: string}}}", "FieldValueForbidden " + at + ".patternProperties"},
		"items as a list":         {object("a: {type: array, items: [{type: string}]}"), "FieldValueForbidden " + at + ".properties[a].items"},
		"unique items":            {object("a: {type: array, items: {type: string}, uniqueItems: true}"), "FieldValueForbidden " + at + ".properties[a].uniqueItems"},
		"properties and others":   {object("a: {type: object, properties: {b: {type: string}}, additionalProperties: {type: string}}"), "FieldValueForbidden " + at + ".properties[a].additionalProperties"},
		"type null":               {object("a: {type: 'null'}"), "FieldValueForbidden " + at + ".properties[a].type"},
		"unknown type":            {object("a: {type: thing}"), "FieldValueNotSupported " + at + ".properties[a].type"},
		"pattern is no pattern":   {object("a: {type: string, pattern: '('}"), "FieldValueInvalid " + at + ".properties[a].pattern"},
		"preserve false":          {object("a: {type: object, x-kubernetes-preserve-unknown-fields: false}"), "FieldValueInvalid " + at + ".properties[a].x-kubernetes-preserve-unknown-fields"},
		"embedded without fields": {object("a: {type: object, x-kubernetes-embedded-resource: true}"), "FieldValueRequired " + at + ".properties[a].properties"},
		"default of another type": {object("a: {type: string, default: 3}"), "FieldValueTypeInvalid " + at + ".properties[a].default"},
		"default in metadata":     {object("metadata: {type: object, properties: {name: {type: string, default: x}}}"), "FieldValueForbidden " + at + ".properties[metadata].properties[name].default"},
		"map list without keys":   {object("a: {type: array, x-kubernetes-list-type: map, items: {type: object, properties: {k: {type: string}}}}"), "FieldValueRequired " + at + ".properties[a].x-kubernetes-list-map-keys"},
		"map list, optional key":  {object("a: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}}}}"), "FieldValueRequired " + at + ".properties[a].items.properties[k].default"},

		"rule with bad syntax":         {object("a: {type: integer, x-kubernetes-validations: [{rule: 'self >'}]}"), "FieldValueInvalid " + at + ".properties[a].x-kubernetes-validations[0].rule"},
		"rule about an absent field":   {"{type: object, properties: {spec: {type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self.b > 1}]}}}", "FieldValueInvalid " + at + ".properties[spec].x-kubernetes-validations[0].rule"},
		"rule that is no question":     {object("a: {type: integer, x-kubernetes-validations: [{rule: self + 1}]}"), "FieldValueInvalid " + at + ".properties[a].x-kubernetes-validations[0].rule"},
		"rule that is empty":           {object("a: {type: integer, x-kubernetes-validations: [{rule: ''}]}"), "FieldValueRequired " + at + ".properties[a].x-kubernetes-validations[0].rule"},
		"rule that costs too much":     {object("a: {type: array, items: {type: array, items: {type: string}}, x-kubernetes-validations: [{rule: 'self.all(x, x.all(y, self.all(z, z.all(w, w == y))))'}]}"), "FieldValueForbidden " + at + ".properties[a].x-kubernetes-validations[0].rule"},
		"rules that cost too much":     {object(dearTogether()), "FieldValueForbidden " + at},
		"message of two lines":         {object(`a: {type: integer, x-kubernetes-validations: [{rule: self > 1, message: "a\nb"}]}`), "FieldValueInvalid " + at + ".properties[a].x-kubernetes-validations[0].message"},
		"rule of two lines, unsaid":    {object(`a: {type: integer, x-kubernetes-validations: [{rule: "self >\n1"}]}`), "FieldValueRequired " + at + ".properties[a].x-kubernetes-validations[0].message"},
		"message of a number":          {object("a: {type: integer, x-kubernetes-validations: [{rule: self > 1, messageExpression: self + 1}]}"), "FieldValueInvalid " + at + ".properties[a].x-kubernetes-validations[0].messageExpression"},
		"unknown reason":               {object("a: {type: integer, x-kubernetes-validations: [{rule: self > 1, reason: Thing}]}"), "FieldValueNotSupported " + at + ".properties[a].x-kubernetes-validations[0].reason"},
		"field path that is absent":    {"{type: object, properties: {spec: {type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self.a > 1, fieldPath: .b}]}}}", "FieldValueInvalid " + at + ".properties[spec].x-kubernetes-validations[0].fieldPath"},
		"transition in an atomic list": {object("a: {type: array, items: {type: integer, x-kubernetes-validations: [{rule: self == oldSelf}]}}"), "FieldValueInvalid " + at + ".properties[a].items.x-kubernetes-validations[0].rule"},
		"optional old, not used":       {object("a: {type: integer, x-kubernetes-validations: [{rule: self > 1, optionalOldSelf: true}]}"), "FieldValueInvalid " + at + ".properties[a].x-kubernetes-validations[0].optionalOldSelf"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := call(t, http.MethodPost, definitionsPath+"?dryRun=All", things(t, "refused.example.com", schemaOf(tc.schema))).wants(t, http.StatusUnprocessableEntity)
			expectCause(t, a, tc.cause)
		})
	}
}

// nineSelectable has one more selectable field than there may be.
func nineSelectable() string {
	var fields, selectable []string
	for i := range 9 {
		fields = append(fields, fmt.Sprintf("f%d: {type: string}", i))
		selectable = append(selectable, fmt.Sprintf("{jsonPath: .spec.f%d}", i))
	}
	return "{spec: {versions: [{name: v1, served: true, storage: true, selectableFields: [" + strings.Join(selectable, ", ") +
		"], schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {" + strings.Join(fields, ", ") + "}}}}}}]}}"
}

// dearTogether has properties with rules that are cheap enough each, and not in all.
func dearTogether() string {
	var fields []string
	for i := range 40 {
		fields = append(fields, fmt.Sprintf("f%d: {type: array, maxItems: 200000, items: {type: string, maxLength: 100, x-kubernetes-validations: [{rule: 'self.matches(\"^(a|b)*$\")'}]}}", i))
	}
	return strings.Join(fields, ", ")
}

func expectCause(t *testing.T, a answer, want string) {
	t.Helper()
	for _, cause := range a.causes() {
		if cause == want {
			return
		}
	}
	t.Errorf("no cause is %q: %s", want, a.text)
}

// TestHarmlessDeviationsAreAccepted: some things that look wrong are not refused, by contract.
func TestHarmlessDeviationsAreAccepted(t *testing.T) {
	tests := map[string]struct{ patch, warning string }{
		"no other properties":      {schemaOf("{type: object, properties: {a: {type: object, additionalProperties: false}}}"), ""},
		"unknown format":           {schemaOf("{type: object, properties: {a: {type: string, format: thing}}}"), "thing"},
		"set of objects":           {schemaOf("{type: object, properties: {a: {type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic, properties: {b: {type: string}}}}}}"), "set"},
		"protected group, allowed": {"{metadata: {name: things.x.k8s.io, annotations: {api-approved.kubernetes.io: 'unapproved, testing'}}, spec: {group: x.k8s.io}}", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := call(t, http.MethodPost, definitionsPath+"?dryRun=All", things(t, "odd.example.com", tc.patch)).wants(t, http.StatusCreated)
			if warning := a.header.Get("Warning"); !strings.Contains(warning, tc.warning) {
				t.Errorf("the warning is %q, want one with %q", warning, tc.warning)
			}
		})
	}
}
