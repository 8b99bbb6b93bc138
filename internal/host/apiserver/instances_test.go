package apiserver_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// featured is a schema with one field for each feature.
const featured = `{type: object, properties: {metadata: {type: object}, spec: {type: object, properties: {
  known: {type: string},
  free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: object, properties: {a: {type: string}}}}},
  embedded: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true},
  either: {x-kubernetes-int-or-string: true},
  size: {type: string, default: small, enum: [small, large]},
  nullable: {type: string, nullable: true},
  word: {type: string},
  defaulted: {type: string, default: x},
  number: {type: integer, minimum: 1, maximum: 9, multipleOf: 2},
  text: {type: string, minLength: 2, maxLength: 4, pattern: '^[a-z]+$'},
  list: {type: array, maxItems: 2, minItems: 1, items: {type: string}},
  map: {type: object, maxProperties: 1, additionalProperties: {type: integer}},
  one: {type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, {required: [b]}]},
  any: {type: integer, anyOf: [{minimum: 10}, {maximum: 1}]},
  not: {type: integer, not: {minimum: 5}},
  all: {type: integer, allOf: [{minimum: 5}]},
  when: {type: string, format: date-time}, mail: {type: string, format: email}, ip: {type: string, format: ipv4},
  net: {type: string, format: cidr}, wait: {type: string, format: duration}, odd: {type: string, format: unknown-format},
  set: {type: array, x-kubernetes-list-type: set, items: {type: string}},
  keyed: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}, v: {type: string}}}},
  atomic: {type: array, x-kubernetes-list-type: atomic, items: {type: string}},
  granular: {type: object, additionalProperties: {type: string}},
  whole: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}},
  ruled: {type: object, properties: {low: {type: integer}, high: {type: integer}}, x-kubernetes-validations: [
    {rule: '!has(self.low) || !has(self.high) || self.low <= self.high', message: low is above high, reason: FieldValueForbidden, fieldPath: .low}]},
  said: {type: integer, x-kubernetes-validations: [{rule: self < 3, messageExpression: '"more than " + "two"'}]},
  fallen: {type: integer, x-kubernetes-validations: [{rule: self < 3, messageExpression: '["none", "one"][self]', message: it is too much}]},
  plain: {type: integer, x-kubernetes-validations: [{rule: self < 3}]},
  once: {type: string, x-kubernetes-validations: [{rule: self == oldSelf, message: it cannot change}]},
  grows: {type: integer, x-kubernetes-validations: [{rule: '!oldSelf.hasValue() || self >= oldSelf.value()', optionalOldSelf: true, message: it only grows},
    {rule: 'oldSelf.hasValue() || self < 100', optionalOldSelf: true, message: it begins small}]},
  must: {type: object, required: [a], properties: {a: {type: string}}}
}}}}`

const featuredGroup = "features.example.com"

// TestInstances has one kind with every feature; the subtests share it, since a new kind is slow to serve.
func TestInstances(t *testing.T) {
	path := served(t, featuredGroup, schemaOf(featured))
	t.Run("what is read is what was written, completed", func(t *testing.T) { instancesRead(t, path) })
	t.Run("what is wrong is refused, by field", func(t *testing.T) { instancesRefused(t, path) })
	t.Run("unknown fields, by validation", func(t *testing.T) { unknownFields(t, path) })
	t.Run("transitions", func(t *testing.T) { transitions(t, path) })
	t.Run("server-side apply", func(t *testing.T) { appliedBySeveral(t, path) })
	t.Run("verbs and types", func(t *testing.T) { verbs(t, path) })
	t.Run("ratcheting", func(t *testing.T) { ratcheting(t) })
	t.Run("published", func(t *testing.T) { published(t) })
}

// sample is a Thing of the featured kind.
func sample(name, spec string) string { return thing(featuredGroup, "v1", name, "spec: {"+spec+"}") }

func instancesRead(t *testing.T, path string) {
	tests := map[string]struct{ spec, want string }{
		"unknown field":              {"known: a, unknown: b", "{known: a}"},
		"preserved, pruned inside":   {"free: {x: 1, known: {a: p, b: q}}", "{free: {x: 1, known: {a: p}}}"},
		"embedded":                   {"embedded: {apiVersion: v1, kind: Pod, metadata: {name: UPPER, odd: x}, any: 1}", "{embedded: {apiVersion: v1, kind: Pod, metadata: {name: UPPER}, any: 1}}"},
		"integer for either":         {"either: 1", "{either: 1}"},
		"string for either":          {"either: a", "{either: a}"},
		"null where it may be":       {"nullable: null", "{nullable: null}"},
		"null where it may not be":   {"word: null", "{}"},
		"null where there's default": {"defaulted: null", "{}"},
		"unknown format":             {"odd: x", "{odd: x}"},
		"good formats":               {"when: '2026-01-01T00:00:00Z', mail: a@b.c, ip: 1.2.3.4, net: 1.2.3.0/24, wait: 3s", "{when: '2026-01-01T00:00:00Z', mail: a@b.c, ip: 1.2.3.4, net: 1.2.3.0/24, wait: 3s}"},
	}
	number := 0
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			number++
			a := call(t, http.MethodPost, path, sample(fmt.Sprintf("read-%d", number), tc.spec)).wants(t, http.StatusCreated)
			want := map[string]any{}
			if err := yaml.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			want["size"], want["defaulted"] = "small", "x" // the defaults
			if got := a.at("spec"); !reflect.DeepEqual(got, any(want)) {
				t.Errorf("it reads %v, want %v", got, want)
			}
		})
	}
}

func instancesRefused(t *testing.T, path string) {
	tests := map[string]struct {
		spec   string
		causes []string
		words  string
	}{
		"embedded without a kind": {"embedded: {apiVersion: v1}", []string{"FieldValueRequired spec.embedded.kind"}, ""},
		"boolean for either":      {"either: true", []string{"FieldValueTypeInvalid spec.either"}, ""},
		"not in the list":         {"size: huge", []string{"FieldValueNotSupported spec.size"}, ""},
		"limits of a number":      {"number: 11", []string{"FieldValueInvalid spec.number"}, "multiple of 2"},
		"length":                  {"text: abcdef", []string{"FieldValueTooLong spec.text"}, ""},
		"pattern":                 {"text: A1", []string{"FieldValueInvalid spec.text"}, ""},
		"items":                   {"list: [a, b, c]", []string{"FieldValueTooMany spec.list"}, ""},
		"properties":              {"map: {a: 1, b: 2}", []string{"FieldValueTooMany spec.map"}, ""},
		"one of":                  {"one: {a: x, b: w}", []string{"FieldValueInvalid <nil>"}, "one and only one schema"},
		"any of":                  {"any: 5", []string{"FieldValueInvalid spec.any"}, ""},
		"not":                     {"not: 6", []string{"FieldValueInvalid <nil>"}, "must not validate the schema"},
		"all of":                  {"all: 4", []string{"FieldValueInvalid spec.all"}, ""},
		"required":                {"must: {}", []string{"FieldValueRequired spec.must.a"}, ""},
		"every bad format": {
			"when: x, mail: x, ip: x, net: x, wait: x",
			[]string{"FieldValueTypeInvalid spec.when", "FieldValueTypeInvalid spec.mail", "FieldValueTypeInvalid spec.ip", "FieldValueTypeInvalid spec.net", "FieldValueTypeInvalid spec.wait"}, "some validation rules were not checked",
		},
		"twice in a set":             {"set: [a, a]", []string{"FieldValueDuplicate spec.set[1]"}, ""},
		"twice in a map":             {"keyed: [{k: a}, {k: a}]", []string{"FieldValueDuplicate spec.keyed[1]"}, ""},
		"map without its key":        {"keyed: [{v: a}]", []string{"FieldValueRequired spec.keyed[0].k"}, ""},
		"rule with reason":           {"ruled: {low: 2, high: 1}", []string{"FieldValueForbidden spec.ruled.low"}, "low is above high"},
		"rule that speaks":           {"said: 5", []string{"FieldValueInvalid spec.said"}, "more than two"},
		"rule that stammers":         {"fallen: 5", []string{"FieldValueInvalid spec.fallen"}, "it is too much"},
		"optional old at first":      {"grows: 100", []string{"FieldValueInvalid spec.grows"}, "it begins small"},
		"embedded without a version": {"embedded: {kind: Pod}", []string{"FieldValueRequired spec.embedded.apiVersion"}, ""},
		"rule without message":       {"plain: 5", []string{"FieldValueInvalid spec.plain"}, "failed rule: self "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := call(t, http.MethodPost, path, sample("refused", tc.spec)).wants(t, http.StatusUnprocessableEntity)
			for _, cause := range tc.causes {
				expectCause(t, a, cause)
			}
			if !strings.Contains(a.text, tc.words) {
				t.Errorf("it does not say %q: %s", tc.words, a.text)
			}
		})
	}
}

func unknownFields(t *testing.T, path string) {
	body := patched(t, sample("strict", "known: a, unknown: b"), "{metadata: {odd: c}}")
	a := call(t, http.MethodPost, path+"?dryRun=All", body).wants(t, http.StatusCreated)
	warnings := strings.Join(a.header.Values("Warning"), " ")
	for _, field := range []string{`unknown field \"spec.unknown\"`, `unknown field \"metadata.odd\"`} {
		if !strings.Contains(warnings, field) {
			t.Errorf("no warning of %s: %s", field, warnings)
		}
	}
	call(t, http.MethodPost, path+"?dryRun=All&fieldValidation=Strict", body).wants(t, http.StatusBadRequest)
	a = call(t, http.MethodPost, path+"?dryRun=All&fieldValidation=Ignore", body).wants(t, http.StatusCreated)
	expect(t, "warnings when ignored", a.header.Values("Warning"), "[]")
}

// transitions are rules about the old value.
func transitions(t *testing.T, path string) {
	call(t, http.MethodPost, path, sample("moves", "once: a, grows: 3")).wants(t, http.StatusCreated)
	change := func(spec string, code int) answer {
		t.Helper()
		return call(t, http.MethodPatch, path+"/moves", `{"spec":`+spec+`}`, "Content-Type", mergePatch).wants(t, code)
	}
	expectCause(t, change(`{"once":"b"}`, http.StatusUnprocessableEntity), "FieldValueInvalid spec.once")
	expectCause(t, change(`{"grows":2}`, http.StatusUnprocessableEntity), "FieldValueInvalid spec.grows")
	change(`{"grows":100}`, http.StatusOK)
	a := change(`{"size":null}`, http.StatusOK)
	expect(t, "the default after a change", a.at("spec.size"), "small")
}

func appliedBySeveral(t *testing.T, path string) {
	apply := func(manager, spec string, code int) answer {
		t.Helper()
		return call(t, http.MethodPatch, path+"/applied?fieldManager="+manager, sample("applied", spec), "Content-Type", "application/apply-patch+yaml").wants(t, code)
	}
	apply("one", "set: [a], keyed: [{k: a, v: x}], atomic: [a], granular: {a: x}, whole: {a: x}", http.StatusCreated)
	a := apply("two", "set: [b], keyed: [{k: b, v: w}], granular: {b: w}", http.StatusOK)
	expect(t, "a set of two", a.at("spec.set"), "[a b]")
	expect(t, "a map of two", a.at("spec.granular"), "map[a:x b:w]")
	if keyed, _ := a.at("spec.keyed").([]any); len(keyed) != 2 {
		t.Errorf("a keyed list of two is %v", keyed)
	}
	for name, spec := range map[string]string{"an atomic list": "atomic: [b]", "an atomic map": "whole: {b: w}"} {
		if a := apply("two", spec, http.StatusConflict); len(a.causes()) == 0 {
			t.Errorf("%s: the conflict names no field", name)
		}
	}
	a = apply("two&force=true", "atomic: [b]", http.StatusOK)
	expect(t, "an atomic list taken by force", a.at("spec.atomic"), "[b]")
	apply("one", "unknown: x", http.StatusInternalServerError)
}

func verbs(t *testing.T, path string) {
	call(t, http.MethodPost, path, sample("verbs", "known: a")).wants(t, http.StatusCreated)
	at := path + "/verbs"
	types := []struct {
		method, contentType, body string
		code                      int
	}{
		{http.MethodPatch, mergePatch, `{"spec":{"known":"b"}}`, http.StatusOK},
		{http.MethodPatch, "application/json-patch+json", `[{"op":"replace","path":"/spec/known","value":"c"}]`, http.StatusOK},
		{http.MethodPatch, "application/strategic-merge-patch+json", `{"spec":{"known":"d"}}`, http.StatusUnsupportedMediaType},
		{http.MethodPut, "application/vnd.kubernetes.protobuf", "k8s\x00x", http.StatusUnsupportedMediaType},
		{http.MethodPatch, "application/vnd.kubernetes.protobuf", "k8s\x00x", http.StatusUnsupportedMediaType},
		{http.MethodPut, "application/yaml", sample("verbs", "known: e"), http.StatusUnprocessableEntity}, // no version
	}
	for _, tc := range types {
		if a := call(t, tc.method, at, tc.body, "Content-Type", tc.contentType); a.code != tc.code {
			t.Errorf("%s as %s gives %d, want %d: %s", tc.method, tc.contentType, a.code, tc.code, a.text)
		}
	}
	call(t, http.MethodPost, path, "k8s\x00x", "Content-Type", "application/vnd.kubernetes.protobuf").wants(t, http.StatusUnsupportedMediaType)
	call(t, http.MethodPost, path, sample("yaml", "known: a"), "Accept", "application/yaml").wants(t, http.StatusCreated)
	call(t, http.MethodPost, path, patched(t, sample("json", "known: a"), ""), "Content-Type", "application/json").wants(t, http.StatusCreated)
	if text := call(t, http.MethodGet, at+"?pretty=true", "").text; !strings.Contains(text, "\n  \"kind\"") {
		t.Errorf("it is not pretty: %s", text)
	}
	call(t, http.MethodGet, at, "", "Accept", "application/vnd.kubernetes.protobuf").wants(t, http.StatusNotAcceptable)
	call(t, http.MethodPut, path+"/absent", patched(t, sample("absent", "known: a"), "{metadata: {resourceVersion: '1'}}")).wants(t, http.StatusNotFound)

	meta := call(t, http.MethodGet, at, "", "Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").wants(t, http.StatusOK)
	expect(t, "metadata alone", fmt.Sprint(meta.at("kind"), meta.at("spec")), "PartialObjectMetadata<nil>")
	page := call(t, http.MethodGet, path+"?limit=1", "").wants(t, http.StatusOK)
	next, _ := page.at("metadata.continue").(string)
	if items, _ := page.at("items").([]any); len(items) != 1 || next == "" {
		t.Errorf("a page of one has %d objects and continues at %q", len(items), next)
	}
	call(t, http.MethodGet, path+"?limit=1&continue="+next, "").wants(t, http.StatusOK)
	version := page.at("metadata.resourceVersion")
	call(t, http.MethodPatch, at, `{"metadata":{"labels":{"colour":"red"}}}`, "Content-Type", mergePatch).wants(t, http.StatusOK)
	chosen := call(t, http.MethodGet, path+"?labelSelector=colour%3Dred", "").wants(t, http.StatusOK)
	if items, _ := chosen.at("items").([]any); len(items) != 1 {
		t.Errorf("a label selects %d objects, want 1", len(items))
	}
	watched := call(t, http.MethodGet, fmt.Sprintf("%s?watch=true&timeoutSeconds=1&resourceVersion=%v&fieldSelector=metadata.name%%3Dverbs", path, version), "").wants(t, http.StatusOK)
	if !strings.Contains(watched.text, `"type":"MODIFIED"`) {
		t.Errorf("the watch shows %s", watched.text)
	}

	gone := call(t, http.MethodDelete, at, "").wants(t, http.StatusOK)
	expect(t, "the answer to a deletion", gone.at("kind"), "Status")
	several := call(t, http.MethodDelete, path+"?dryRun=All", "").wants(t, http.StatusOK)
	expect(t, "the answer to a deletion of all", several.at("kind"), "ThingList")
}

// ratcheting: what was valid when it was written may stay as it is.
func ratcheting(t *testing.T) {
	const group = "ratchet.example.com"
	path := served(t, group, schemaOf("{type: object, properties: {spec: {type: object, properties: {old: {type: string}, other: {type: string}}}}}"))
	call(t, http.MethodPost, path, thing(group, "v1", "a", "spec: {old: abcdef}")).wants(t, http.StatusCreated)
	tight := schemaOf("{type: object, properties: {spec: {type: object, properties: {old: {type: string, maxLength: 3}, other: {type: string}}}}}")
	merge(t, definitionOf(group), tight).wants(t, http.StatusOK)
	eventually(t, func() string {
		if a := call(t, http.MethodPost, path+"?dryRun=All", thing(group, "v1", "b", "spec: {old: abcdef}")); a.code != http.StatusUnprocessableEntity {
			return "the new limit does not hold: " + a.text
		}
		return ""
	})
	call(t, http.MethodPatch, path+"/a", `{"spec":{"other":"x"}}`, "Content-Type", mergePatch).wants(t, http.StatusOK)
	call(t, http.MethodPatch, path+"/a", `{"spec":{"old":"fedcba"}}`, "Content-Type", mergePatch).wants(t, http.StatusUnprocessableEntity)

	// A new default completes what was stored before.
	completed := schemaOf("{type: object, properties: {spec: {type: object, properties: {old: {type: string}, other: {type: string}, added: {type: string, default: new}}}}}")
	merge(t, definitionOf(group), completed).wants(t, http.StatusOK)
	eventually(t, func() string {
		if got := call(t, http.MethodGet, path+"/a", "").at("spec.added"); got != "new" {
			return fmt.Sprintf("the default of what was stored before is %v", got)
		}
		return ""
	})
}

// published: kubectl explain and client-side checks read these documents.
func published(t *testing.T) {
	for _, path := range []string{"/openapi/v2", "/openapi/v3/apis/" + featuredGroup + "/v1"} {
		eventually(t, func() string {
			text := call(t, http.MethodGet, path, "").text
			for _, word := range []string{"com.example.features.v1.Thing", `"/apis/` + featuredGroup + `/v1/namespaces/{namespace}/things/{name}"`, `"x-kubernetes-group-version-kind":[{"group":"` + featuredGroup + `","kind":"Thing"`} {
				if !strings.Contains(text, word) {
					return path + " lacks " + word
				}
			}
			return ""
		})
	}
	aggregated := call(t, http.MethodGet, "/apis", "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").wants(t, http.StatusOK)
	if !strings.Contains(aggregated.text, `"name":"`+featuredGroup+`"`) {
		t.Error("aggregated discovery lacks the group")
	}
	expect(t, "APIService", call(t, http.MethodGet, "/apis/apiregistration.k8s.io/v1/apiservices/v1."+featuredGroup, "").code, http.StatusOK)
}

// TestInstancesGoWithTheirNamespace: the namespace and garbage controllers read custom kinds from discovery.
func TestInstancesGoWithTheirNamespace(t *testing.T) {
	const group = "leaving.example.com"
	path := served(t, group, "")
	call(t, http.MethodPost, path, thing(group, "v1", "a", "a: 1")).wants(t, http.StatusCreated)
	ns := strings.Split(path, "/")[5]
	call(t, http.MethodDelete, "/api/v1/namespaces/"+ns, "").wants(t, http.StatusOK)
	eventually(t, func() string {
		if a := call(t, http.MethodGet, "/api/v1/namespaces/"+ns, ""); a.code != http.StatusNotFound {
			return "the namespace is still there: " + a.text
		}
		return ""
	})
	call(t, http.MethodGet, path+"/a", "").wants(t, http.StatusNotFound)
}
