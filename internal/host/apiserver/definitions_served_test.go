package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const mergePatch = "application/merge-patch+json"

// served creates the kind Thing in a group of its own and returns the path of its version v1 in a new namespace.
func served(t *testing.T, group, patch string) string {
	t.Helper()
	create(t, group, patch)
	expectDefinition(t, group, "Established", "True", "InitialNamesAccepted")
	path := fmt.Sprintf("/apis/%s/v1/namespaces/%s/things", group, namespace(t))
	eventually(t, func() string {
		if a := call(t, http.MethodGet, path, ""); a.code != http.StatusOK {
			return fmt.Sprintf("%s is established but not served: %s", group, a.text)
		}
		return ""
	})
	return path
}

// create creates the kind Thing; it goes with the test. A definition whose webhook is dead, for one, holds up the deletion
// of every namespace.
func create(t *testing.T, group, patch string) {
	t.Helper()
	call(t, http.MethodPost, definitionsPath, things(t, group, patch)).wants(t, http.StatusCreated)
	t.Cleanup(func() {
		err := objects.Resource(definitionResource).Delete(context.WithoutCancel(t.Context()), "things."+group, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("deleting the definition of group %s: %v", group, err)
		}
	})
}

var definitionResource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// merge sends a merge patch that is written in YAML.
func merge(t *testing.T, path, patch string) answer {
	t.Helper()
	return call(t, http.MethodPatch, path, patched(t, patch, ""), "Content-Type", mergePatch)
}

func definitionOf(group string) string { return definitionsPath + "/things." + group }

// expectDefinition waits for a condition of a definition.
func expectDefinition(t *testing.T, group, kind, status, reason string) {
	t.Helper()
	expectCondition(t, definitionOf(group), kind, status, reason)
}

// expectCondition is expectDefinition for the definition at a path.
func expectCondition(t *testing.T, path, kind, status, reason string) {
	t.Helper()
	eventually(t, func() string {
		a := call(t, http.MethodGet, path, "")
		conditions, _ := a.at("status.conditions").([]any)
		for _, entry := range conditions {
			c, _ := entry.(map[string]any)
			if c["type"] == kind && c["status"] == status && c["reason"] == reason {
				return ""
			}
		}
		return fmt.Sprintf("%s is not %s (%s): %v", kind, status, reason, conditions)
	})
}

// thing is an object of kind Thing.
func thing(group, version, name, fields string) string {
	return fmt.Sprintf("{apiVersion: %s/%s, kind: Thing, metadata: {name: %s}, %s}", group, version, name, fields)
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

const open = "schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"

func TestNamesOfADefinition(t *testing.T) {
	const group = "names.example.com"
	path := served(t, group, "{spec: {names: {shortNames: [th], categories: [all]}}}")
	a := call(t, http.MethodGet, definitionOf(group), "").wants(t, http.StatusOK)
	for _, at := range []string{"spec.names", "status.acceptedNames"} {
		expect(t, at+".singular", a.at(at+".singular"), "thing")
		expect(t, at+".listKind", a.at(at+".listKind"), "ThingList")
	}
	expect(t, "generation", a.at("metadata.generation"), 1)
	expectDefinition(t, group, "NamesAccepted", "True", "NoConflicts")

	resource := call(t, http.MethodGet, "/apis/"+group+"/v1", "").wants(t, http.StatusOK)
	expect(t, "short names in discovery", resource.at("resources.0.shortNames"), "[th]")
	expect(t, "categories in discovery", resource.at("resources.0.categories"), "[all]")
	definitions := call(t, http.MethodGet, "/apis/apiextensions.k8s.io/v1", "").wants(t, http.StatusOK)
	expect(t, "the definition's own short names", definitions.at("resources.0.shortNames"), "[crd crds]")
	expect(t, "the definition's own category", definitions.at("resources.0.categories"), "[api-extensions]")

	for name, tc := range map[string]struct{ patch, field string }{
		"scope": {"{spec: {scope: Cluster}}", "FieldValueInvalid spec.scope"},
		"kind":  {"{spec: {names: {kind: Other, listKind: OtherList}}}", "FieldValueInvalid spec.names.kind"},
		"group": {"{spec: {group: other.example.com}}", "FieldValueInvalid spec.group"},
	} {
		t.Run(name+" is immutable", func(t *testing.T) {
			expectCause(t, merge(t, definitionOf(group), tc.patch).wants(t, http.StatusUnprocessableEntity), tc.field)
		})
	}
	call(t, http.MethodGet, strings.Replace(path, "/v1/", "/v2/", 1), "").wants(t, http.StatusNotFound)
}

// TestNamesAreUniqueInAGroup: the second definition with a name of the first one waits until that goes.
func TestNamesAreUniqueInAGroup(t *testing.T) {
	const group = "conflict.example.com"
	served(t, group, "{spec: {names: {shortNames: [th]}}}")
	conflicts := map[string]struct{ plural, names, reason string }{
		"the same kind":           {"others", "{singular: other, listKind: OtherList}", "KindConflict"},
		"the same kind of list":   {"lists", "{singular: list, kind: List, listKind: ThingList}", "ListKindConflict"},
		"the same singular":       {"ones", "{singular: thing, kind: One}", "SingularConflict"},
		"the same short name":     {"shorts", "{singular: short, kind: Short, shortNames: [th]}", "ShortNamesConflict"},
		"the other's short name":  {"th", "{singular: thx, kind: Th}", "PluralConflict"},
		"its plural is the short": {"plurals", "{singular: pl, kind: Plural, shortNames: [things]}", "ShortNamesConflict"},
	}
	for name, tc := range conflicts {
		patch := "{metadata: {name: " + tc.plural + "." + group + "}, spec: {names: " + patched(t, tc.names, "{plural: "+tc.plural+"}") + "}}"
		at := definitionsPath + "/" + tc.plural + "." + group
		call(t, http.MethodPost, definitionsPath, things(t, group, patch)).wants(t, http.StatusCreated)
		t.Cleanup(func() {
			err := objects.Resource(definitionResource).Delete(context.WithoutCancel(t.Context()), tc.plural+"."+group, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		})
		t.Run(name, func(t *testing.T) {
			expectCondition(t, at, "NamesAccepted", "False", tc.reason)
			expectCondition(t, at, "Established", "False", "NotAccepted")
			call(t, http.MethodGet, "/apis/"+group+"/v1/"+tc.plural, "").wants(t, http.StatusNotFound)
		})
	}
	call(t, http.MethodDelete, definitionOf(group), "").wants(t, http.StatusOK)
	expectCondition(t, definitionsPath+"/ones."+group, "Established", "True", "InitialNamesAccepted")
}

func TestClusterScope(t *testing.T) {
	const wide = "wide.example.com"
	create(t, wide, "{spec: {scope: Cluster}}")
	expectDefinition(t, wide, "Established", "True", "InitialNamesAccepted")
	eventually(t, func() string {
		if a := call(t, http.MethodPost, "/apis/"+wide+"/v1/things", thing(wide, "v1", "a", "a: 1")); a.code != http.StatusCreated {
			return a.text
		}
		return ""
	})
	call(t, http.MethodGet, "/apis/"+wide+"/v1/namespaces/default/things/a", "").wants(t, http.StatusNotFound)
}

func TestVersionsOfADefinition(t *testing.T) {
	const group = "versions.example.com"
	versions := func(storage string) string {
		var list []string
		for _, v := range []string{"v1alpha1", "v1", "v1beta1"} {
			list = append(list, fmt.Sprintf("{name: %s, served: true, storage: %v, %s}", v, v == storage, open))
		}
		list = append(list, "{name: v1alpha9, served: false, storage: false, "+open+"}")
		return "{spec: {versions: [" + strings.Join(list, ", ") + "]}}"
	}
	path := served(t, group, versions("v1beta1"))
	eventually(t, func() string {
		a := call(t, http.MethodGet, "/apis/"+group, "")
		var order []string
		list, _ := a.at("versions").([]any)
		for _, v := range list {
			order = append(order, v.(map[string]any)["version"].(string))
		}
		if !slices.Equal(order, []string{"v1", "v1beta1", "v1alpha1"}) || a.at("preferredVersion.version") != "v1" {
			return "discovery lists " + fmt.Sprint(order)
		}
		return ""
	})
	call(t, http.MethodGet, strings.Replace(path, "/v1/", "/v1alpha9/", 1), "").wants(t, http.StatusNotFound)

	// Every version that was ever storage is recorded, and cannot be removed before a client says that it is unused.
	merge(t, definitionOf(group), versions("v1")).wants(t, http.StatusOK)
	eventually(t, func() string {
		if got := fmt.Sprint(call(t, http.MethodGet, definitionOf(group), "").at("status.storedVersions")); got != "[v1beta1 v1]" {
			return "stored versions are " + got
		}
		return ""
	})
	only := "{spec: {versions: [{name: v1, served: true, storage: true, " + open + "}]}}"
	expectCause(t, merge(t, definitionOf(group), only).wants(t, http.StatusUnprocessableEntity), "FieldValueInvalid status.storedVersions[0]")
	// Known upstream: it does not check whether such a version exists.
	merge(t, definitionOf(group)+"/status?dryRun=All", "{status: {storedVersions: [v1, v7]}}").wants(t, http.StatusOK)
	merge(t, definitionOf(group)+"/status", "{status: {storedVersions: [v1]}}").wants(t, http.StatusOK)
	a := merge(t, definitionOf(group), only).wants(t, http.StatusOK)
	if n, _ := a.at("metadata.generation").(float64); n < 3 {
		t.Errorf("the generation is %v after two changes of the spec", n)
	}
}

func TestApprovalOfAProtectedGroup(t *testing.T) {
	const group = "approval.x.k8s.io"
	create(t, group, "{metadata: {annotations: {api-approved.kubernetes.io: 'unapproved, testing'}}}")
	expectDefinition(t, group, "KubernetesAPIApprovalPolicyConformant", "False", "UnapprovedAnnotation")
}

func TestWritesOfDefinitions(t *testing.T) {
	const group = "writes.example.com"
	served(t, group, "")
	current := call(t, http.MethodGet, definitionOf(group), "").wants(t, http.StatusOK)
	without := patched(t, current.text, "{metadata: {resourceVersion: null}}")
	expectCause(t, call(t, http.MethodPut, definitionOf(group), without).wants(t, http.StatusUnprocessableEntity), "FieldValueInvalid metadata.resourceVersion")
	for contentType, body := range map[string]string{
		"application/strategic-merge-patch+json": `{"metadata":{"labels":{"a":"strategic"}}}`,
		mergePatch:                               `{"metadata":{"labels":{"a":"merge"}}}`,
		"application/json-patch+json":            `[{"op":"add","path":"/metadata/labels","value":{"a":"json"}}]`,
		"application/apply-patch+yaml":           "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things." + group + ", labels: {b: apply}}}",
	} {
		call(t, http.MethodPatch, definitionOf(group)+"?fieldManager=test", body, "Content-Type", contentType).wants(t, http.StatusOK)
	}
	protobuf := call(t, http.MethodGet, definitionOf(group), "", "Accept", "application/vnd.kubernetes.protobuf").wants(t, http.StatusOK)
	if !strings.HasPrefix(protobuf.text, "k8s\x00") {
		t.Error("a definition is not read as protobuf")
	}
	call(t, http.MethodPut, definitionOf(group), protobuf.text, "Content-Type", "application/vnd.kubernetes.protobuf").wants(t, http.StatusOK)

	// Known upstream: metadata sticks when written through the status.
	a := call(t, http.MethodPatch, definitionOf(group)+"/status", `{"metadata":{"labels":{"c":"status"}},"spec":{"scope":"Cluster"}}`, "Content-Type", mergePatch).wants(t, http.StatusOK)
	expect(t, "scope after a write of the status", a.at("spec.scope"), "Namespaced")
	expect(t, "label after a write of the status", a.at("metadata.labels.c"), "status")

	table := call(t, http.MethodGet, definitionOf(group), "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").wants(t, http.StatusOK)
	expect(t, "columns of definitions", columns(table), "[Name Scope Versions Created At Group/1 Kind/1 ShortNames/1 Established/1]")
}

// columns are the names of a table's columns, those shown only when asked for with their priority.
func columns(table answer) []string {
	var names []string
	list, _ := table.at("columnDefinitions").([]any)
	for _, entry := range list {
		c := entry.(map[string]any)
		name := c["name"].(string)
		if p := c["priority"].(float64); p > 0 {
			name += fmt.Sprintf("/%v", p)
		}
		names = append(names, name)
	}
	return names
}

func TestDeletionOfADefinition(t *testing.T) {
	const group = "deletion.example.com"
	path := served(t, group, "")
	call(t, http.MethodPost, path, thing(group, "v1", "free", "a: 1")).wants(t, http.StatusCreated)
	call(t, http.MethodPost, path, patched(t, thing(group, "v1", "bound", "a: 1"), "{metadata: {finalizers: [example.com/keep]}}")).wants(t, http.StatusCreated)
	a := call(t, http.MethodDelete, definitionOf(group), "").wants(t, http.StatusOK)
	expect(t, "the answer's kind", a.at("kind"), "CustomResourceDefinition")
	expect(t, "the finalizer", a.at("metadata.finalizers"), "[customresourcecleanup.apiextensions.k8s.io]")
	if a.at("metadata.deletionTimestamp") == nil {
		t.Error("the answer has no time of deletion")
	}
	expectCondition(t, definitionOf(group), "Terminating", "True", "InstanceDeletionInProgress")
	eventually(t, func() string {
		if a := call(t, http.MethodGet, path+"/free", ""); a.code != http.StatusNotFound {
			return "an object is still there: " + a.text
		}
		return ""
	})
	call(t, http.MethodPost, path, thing(group, "v1", "late", "a: 1")).wants(t, http.StatusForbidden)
	call(t, http.MethodPatch, path+"/bound", `{"metadata":{"finalizers":null}}`, "Content-Type", mergePatch).wants(t, http.StatusOK)
	eventually(t, func() string {
		if a := call(t, http.MethodGet, definitionOf(group), ""); a.code != http.StatusNotFound {
			return "the definition is still there: " + a.text
		}
		return ""
	})
}

const numbered = "schema: {openAPIV3Schema: {type: object, properties: {" +
	"spec: {type: object, properties: {num: {type: integer, maximum: 9}, s: {type: string}, active: {type: boolean}, l: {type: array, items: {type: object, properties: {a: {type: string}}}}}}, " +
	"status: {type: object, properties: {num: {type: integer}, sel: {type: string}}}}}}"

const numberedColumns = "additionalPrinterColumns: [{name: Number, type: integer, jsonPath: .spec.num}, {name: First, type: string, jsonPath: '.spec.l[*].a', priority: 1}, " +
	"{name: Chosen, type: string, jsonPath: '.spec.l[?(@.a==\"q\")].a'}, {name: Active, type: boolean, jsonPath: .spec.active}, {name: Share, type: number, jsonPath: .spec.num}, {name: Since, type: date, jsonPath: .spec.s}]"

func TestSubresources(t *testing.T) {
	const group = "subresources.example.com"
	path := served(t, group, "{spec: {versions: [{name: v1, served: true, storage: true, "+numbered+
		", subresources: {status: {}, scale: {specReplicasPath: .spec.num, statusReplicasPath: .status.num, labelSelectorPath: .status.sel}}}]}}")
	a := call(t, http.MethodPost, path, thing(group, "v1", "a", "spec: {s: x}, status: {num: 1}")).wants(t, http.StatusCreated)
	expect(t, "status after create", a.at("status"), nil)
	if code := call(t, http.MethodGet, path+"/a/scale", "").code; code != http.StatusInternalServerError {
		t.Errorf("a scale without replicas gives %d, want 500", code)
	}
	put := func(path, patch string) answer {
		return call(t, http.MethodPut, path, patched(t, call(t, http.MethodGet, strings.TrimSuffix(path, "/status"), "").text, patch)).wants(t, http.StatusOK)
	}
	a = put(path+"/a", "{spec: {num: 3}, status: {num: 8}}")
	expect(t, "status after a write of the whole", a.at("status"), nil)
	expect(t, "generation", a.at("metadata.generation"), 2)
	a = put(path+"/a/status", "{metadata: {labels: {x: w}}, spec: {num: 4}, status: {num: 5, sel: a=b}}")
	expect(t, "spec after a write of the status", a.at("spec.num"), 3)
	expect(t, "labels after a write of the status", a.at("metadata.labels"), nil)
	expect(t, "generation", a.at("metadata.generation"), 2)

	scale := call(t, http.MethodGet, path+"/a/scale", "").wants(t, http.StatusOK)
	expect(t, "scale", fmt.Sprint(scale.at("apiVersion"), scale.at("kind"), scale.at("spec.replicas"), scale.at("status.replicas"), scale.at("status.selector")), "autoscaling/v1Scale3 5a=b")
	call(t, http.MethodPut, path+"/a/scale", patched(t, scale.text, "{spec: {replicas: 6}}")).wants(t, http.StatusOK)
	call(t, http.MethodPatch, path+"/a/scale", `{"spec":{"replicas":7}}`, "Content-Type", mergePatch).wants(t, http.StatusOK)
	expect(t, "replicas", call(t, http.MethodGet, path+"/a", "").at("spec.num"), 7)
	call(t, http.MethodPatch, path+"/a/scale", `{"spec":{"replicas":10}}`, "Content-Type", mergePatch).wants(t, http.StatusUnprocessableEntity)
	call(t, http.MethodPost, path, thing(group, "v1", "b", "spec: {num: 1}")).wants(t, http.StatusCreated)
	expect(t, "status.replicas by default", call(t, http.MethodGet, path+"/b/scale", "").at("status.replicas"), 0)
	resources := call(t, http.MethodGet, "/apis/"+group+"/v1", "").text
	if !strings.Contains(resources, `"name":"things/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale"`) {
		t.Errorf("discovery has no scale of group autoscaling: %s", resources)
	}

	const plain = "plain.example.com"
	path = served(t, plain, "")
	a = call(t, http.MethodPost, path, thing(plain, "v1", "a", "status: {num: 1}")).wants(t, http.StatusCreated)
	expect(t, "status without a subresource", a.at("status.num"), 1)
	expect(t, "status without a subresource after a write", put(path+"/a", "{status: {num: 2}}").at("status.num"), 2)
	call(t, http.MethodGet, path+"/a/status", "").wants(t, http.StatusNotFound)
}

func TestColumnsSelectorsAndDeprecation(t *testing.T) {
	const group = "columns.example.com"
	// Were the schemas the same, all versions would have to have the same selectable fields.
	other := strings.Replace(numbered, "{type: object,", "{type: object, description: older,", 1)
	path := served(t, group, "{spec: {versions: ["+
		"{name: v1, served: true, storage: true, "+numbered+", "+numberedColumns+", selectableFields: [{jsonPath: .spec.s}, {jsonPath: .spec.num}, {jsonPath: .spec.active}]}, "+
		"{name: v1beta1, served: true, storage: false, deprecated: true, "+other+"}, "+
		"{name: v1alpha1, served: true, storage: false, deprecated: true, deprecationWarning: go away, "+other+"}]}}")
	for name, fields := range map[string]string{"a": "spec: {num: 1, s: x, active: true, l: [{a: p}, {a: q}]}", "b": "spec: {num: 2}"} {
		call(t, http.MethodPost, path, thing(group, "v1", name, fields)).wants(t, http.StatusCreated)
	}
	const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"
	table := call(t, http.MethodGet, path, "", "Accept", asTable).wants(t, http.StatusOK)
	expect(t, "columns", columns(table), "[Name Number First/1 Chosen Active Share Since]")
	expect(t, "the first row", table.at("rows.0.cells"), "[a 1 p q true 1 <invalid>]")
	old := strings.Replace(path, "/v1/", "/v1beta1/", 1)
	beta := call(t, http.MethodGet, old, "", "Accept", asTable).wants(t, http.StatusOK)
	expect(t, "default columns", columns(beta), "[Name Age]")

	for name, tc := range map[string]struct{ path, warning string }{
		"default": {old, group + "/v1beta1 Thing is deprecated; use " + group + "/v1 Thing"},
		"own":     {strings.Replace(path, "/v1/", "/v1alpha1/", 1), "go away"},
		"none":    {path, ""},
	} {
		if got := call(t, http.MethodGet, tc.path, "").header.Get("Warning"); !strings.Contains(got, tc.warning) || tc.warning == "" && got != "" {
			t.Errorf("%s warning is %q, want %q", name, got, tc.warning)
		}
	}

	for selector, want := range map[string]string{"spec.s=x": "a", "spec.num=2": "b", "spec.active=true": "a", "spec.s=": "b", "spec.s!=x": "b"} {
		a := call(t, http.MethodGet, path+"?fieldSelector="+selector, "").wants(t, http.StatusOK)
		if items, _ := a.at("items").([]any); len(items) != 1 || a.at("items.0.metadata.name") != want {
			t.Errorf("%s selects %d objects, want %s alone", selector, len(items), want)
		}
	}
	watched := call(t, http.MethodGet, path+"?watch=true&timeoutSeconds=1&resourceVersion=0&fieldSelector=spec.s=x", "").wants(t, http.StatusOK)
	if strings.Count(watched.text, `"type":"ADDED"`) != 1 || !strings.Contains(watched.text, `"name":"a"`) {
		t.Errorf("a watch by a field shows %s", watched.text)
	}
	call(t, http.MethodGet, path+"?fieldSelector=spec.x=y", "").wants(t, http.StatusBadRequest)
	call(t, http.MethodGet, old+"?fieldSelector=spec.s=x", "").wants(t, http.StatusBadRequest)
	call(t, http.MethodDelete, path+"?fieldSelector=spec.s=x", "").wants(t, http.StatusOK)
	call(t, http.MethodGet, path+"/a", "").wants(t, http.StatusNotFound)
	call(t, http.MethodGet, path+"/b", "").wants(t, http.StatusOK)
	eventually(t, func() string {
		if text := call(t, http.MethodGet, "/openapi/v3/apis/"+group+"/v1", "").text; !strings.Contains(text, "x-kubernetes-selectable-fields") {
			return "the published schema lacks selectable fields"
		}
		return ""
	})
}

// TestDeprecationWithoutABetterVersion: a version below the deprecated one is nothing to go to.
func TestDeprecationWithoutABetterVersion(t *testing.T) {
	const group = "deprecated.example.com"
	path := served(t, group, "{spec: {versions: [{name: v1, served: true, storage: true, "+open+"}, {name: v2, served: true, storage: false, deprecated: true, "+open+"}]}}")
	warning := call(t, http.MethodGet, strings.Replace(path, "/v1/", "/v2/", 1), "").wants(t, http.StatusOK).header.Get("Warning")
	if !strings.Contains(warning, group+"/v2 Thing is deprecated") || strings.Contains(warning, "use") {
		t.Errorf("the warning is %q", warning)
	}
}

// TestConversionByNameOnly: without a webhook only the version's name changes, and the other version's schema prunes.
func TestConversionByNameOnly(t *testing.T) {
	const group = "renamed.example.com"
	field := func(name string) string {
		return "schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {both: {type: string}, " + name + ": {type: string}}}}}}"
	}
	path := served(t, group, "{spec: {versions: [{name: v1, served: true, storage: true, "+field("one")+"}, {name: v2, served: true, storage: false, "+field("two")+"}]}}")
	call(t, http.MethodPost, path, thing(group, "v1", "a", "spec: {both: x, one: w}")).wants(t, http.StatusCreated)
	a := call(t, http.MethodGet, strings.Replace(path, "/v1/", "/v2/", 1)+"/a", "").wants(t, http.StatusOK)
	expect(t, "apiVersion", a.at("apiVersion"), group+"/v2")
	expect(t, "spec in the other version", a.at("spec"), map[string]any{"both": "x"})
}
