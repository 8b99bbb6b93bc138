package aggregate_test

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// table is the page that lists how each field of the status of each built-in kind is folded.
const table = "../../../../../docs/status.md"

// documented reads the table: the rule of each field, by "Kind field". The field of a kind without a rule is "*".
func documented(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(strings.TrimSpace(cells[2]), "`") {
			continue
		}
		for field := range strings.SplitSeq(strings.ReplaceAll(cells[2], "`", ""), ",") {
			for kind := range strings.SplitSeq(cells[1], ",") {
				rules[strings.TrimSpace(kind)+" "+strings.TrimSpace(field)] = strings.TrimSpace(cells[3])
			}
		}
	}
	return rules
}

// statusFields are the fields of the status of every kind of client-go, in whatever version.
func statusFields() map[string]schema.GroupVersionKind {
	found := map[string]schema.GroupVersionKind{}
	for gvk, kind := range scheme.Scheme.AllKnownTypes() {
		status, ok := kind.FieldByName("Status")
		if !ok || status.Type.Kind() != reflect.Struct || kind.Name() == "Status" || strings.HasSuffix(gvk.Group, "internal") {
			continue
		}
		for i := range status.Type.NumField() {
			name, _, _ := strings.Cut(status.Type.Field(i).Tag.Get("json"), ",")
			if key := gvk.Kind + " " + name; found[key].Version != "v1" && found[key].Version != "v2" {
				found[key] = gvk
			}
		}
	}
	return found
}

// TestEveryStatusFieldHasARule: a field that a new version of Kubernetes adds has to be in the table.
func TestEveryStatusFieldHasARule(t *testing.T) {
	rules, fields := documented(t), statusFields()
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		kind, _, _ := strings.Cut(key, " ")
		if rules[key] == "" && rules[kind+" *"] == "" {
			t.Errorf("docs/status.md does not say how %s is folded", key)
		}
	}
	kinds := map[string]bool{}
	for key := range fields {
		kind, _, _ := strings.Cut(key, " ")
		kinds[kind] = true
	}
	for key := range rules {
		kind, field, _ := strings.Cut(key, " ")
		if _, ok := fields[key]; !ok && (field != "*" || !kinds[kind]) {
			t.Errorf("docs/status.md has a rule of %s, which is no field", key)
		}
	}
}

// TestSumsAreSums: of each field that the table calls a sum the template has that of two clusters.
func TestSumsAreSums(t *testing.T) {
	sums := 0
	fields := statusFields()
	for key, rule := range documented(t) {
		if rule != "sum" {
			continue
		}
		sums++
		kind, field, _ := strings.Cut(key, " ")
		gvk := fields[key]
		template := object(t, "{spec: {replicas: 9, parallelism: 9}}")
		template.SetGroupVersionKind(gvk)
		// All counters are equal, so that none is more than what it is a part of.
		all := "{generation: 1, observedGeneration: 1, resourceTemplateGeneration: 1"
		for other := range fields {
			if of, name, _ := strings.Cut(other, " "); of == kind && documented(t)[other] == "sum" {
				all += fmt.Sprintf(", %s: 2", name)
			}
		}
		result := aggregate(t, template, item(t, "a", all+"}"), item(t, "b", all+"}"))
		if got, _, _ := unstructured.NestedInt64(result.Object, "status", field); got != 4 {
			t.Errorf("%s of two clusters with 2 each is %d", key, got)
		}
	}
	if sums < 20 {
		t.Errorf("the table has %d sums", sums)
	}
}
