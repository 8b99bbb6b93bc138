package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/api/crds"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

// fieldRow is what the contract says about one field. Constraint values are JSON.
type fieldRow struct {
	Type        string
	Required    bool
	Constraints map[string]string
}

// TestFieldsMatchContract compares every field of every kind with the tables in testdata.
func TestFieldsMatchContract(t *testing.T) {
	served := servedFields(t)
	paths, err := filepath.Glob("testdata/fields/*.tsv")
	if err != nil || len(paths) != len(served) {
		t.Fatalf("got %d tables for %d kinds, error %v", len(paths), len(served), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".tsv")
		t.Run(name, func(t *testing.T) {
			want, got := readFields(t, path), served[name]
			for field, row := range want {
				actual, ok := got[field]
				if !ok {
					t.Errorf("%s is missing", field)
					continue
				}
				dropAdditions(actual.Constraints, row.Constraints)
				if diff := cmp.Diff(row, actual); diff != "" {
					t.Errorf("%s differs (-contract +ours):\n%s", field, diff)
				}
			}
			for field := range got {
				if _, ok := want[field]; !ok && !additions[name+" "+field] {
					t.Errorf("%s is not in the contract", field)
				}
			}
		})
	}
}

// additions are fields that Kubernetes' own types have gained since the contract was written, and optional fields of Flagship's
// own, which clients of Karmada's API ignore.
var additions = map[string]bool{
	"autoscaling.karmada.io_v1alpha1_FederatedHPA status.conditions[].observedGeneration": true,
	"work.karmada.io_v1alpha1_Work status.manifestStatuses[].lastHealth":                  true,
	"work.karmada.io_v1alpha1_Work status.manifestStatuses[].finished":                    true,
	"work.karmada.io_v1alpha1_Work status.manifestStatuses[].removed":                     true,
}

// dropAdditions removes what our schemas say beyond the contract: bounds that no
// sane object meets and that keep the cost of CEL rules in budget, and conditions as maps by type, so that
// each owner applies its own.
func dropAdditions(got, want map[string]string) {
	for _, bound := range []string{"maxItems", "minLength", "maxLength"} {
		if _, ok := want[bound]; !ok {
			delete(got, bound)
		}
	}
	if _, ok := want["list-type"]; !ok && got["list-map-keys"] == `["type"]` {
		delete(got, "list-type")
		delete(got, "list-map-keys")
	}
}

func readFields(t *testing.T, path string) map[string]fieldRow {
	t.Helper()
	rows := map[string]fieldRow{}
	for _, cells := range readTable(t, path) {
		row := fieldRow{Type: cells[1], Required: cells[2] == "required", Constraints: map[string]string{}}
		for _, constraint := range strings.Split(cells[3], "; ") {
			if key, value, ok := strings.Cut(constraint, "="); ok {
				row.Constraints[key] = canonicalJSON(t, []byte(value))
			}
		}
		rows[cells[0]] = row
	}
	return rows
}

// readTable returns the rows of a table below its heading, all of one length.
func readTable(t *testing.T, path string) [][]string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	columns := len(strings.Split(lines[0], "\t"))
	rows := make([][]string, 0, len(lines)-1)
	for _, line := range lines[1:] {
		cells := strings.Split(line, "\t")
		for len(cells) < columns {
			cells = append(cells, "")
		}
		rows = append(rows, cells)
	}
	return rows
}

func canonicalJSON(t *testing.T, value []byte) string {
	t.Helper()
	var decoded any
	if err := json.Unmarshal(value, &decoded); err != nil {
		t.Fatalf("decoding %s: %v", value, err)
	}
	encoded, err := json.Marshal(decoded)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// servedFields returns the fields of every kind that the project serves, keyed as
// the tables are named.
func servedFields(t *testing.T) map[string]map[string]fieldRow {
	t.Helper()
	served := map[string]map[string]fieldRow{}
	for _, definition := range allDefinitions(t) {
		for _, version := range definition.Spec.Versions {
			rows := map[string]fieldRow{}
			flattenSchema(t, "", version.Schema.OpenAPIV3Schema, rows)
			served[definition.Spec.Group+"_"+version.Name+"_"+definition.Spec.Names.Kind] = rows
		}
	}
	served["cluster.karmada.io_v1alpha1_Cluster"] = clusterFields(t)
	return served
}

// allDefinitions are those of Karmada's kinds.
func allDefinitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(definitions, func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.Spec.Group == fleetv1alpha1.GroupName })
}

// flattenSchema adds a row per field below an object schema.
func flattenSchema(t *testing.T, prefix string, schema *apiextensionsv1.JSONSchemaProps, rows map[string]fieldRow) {
	t.Helper()
	for name, property := range schema.Properties {
		if prefix == "" && (name == "apiVersion" || name == "kind" || name == "metadata") {
			continue
		}
		path := prefix + name
		rows[path] = fieldRow{
			Type:        schemaType(&property),
			Required:    slices.Contains(schema.Required, name),
			Constraints: schemaConstraints(t, &property),
		}
		switch {
		case property.Items != nil:
			flattenSchema(t, path+"[].", property.Items.Schema, rows)
		default:
			flattenSchema(t, path+".", &property, rows)
		}
	}
}

func schemaType(schema *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case schema.XIntOrString:
		return "int-or-string"
	case schema.Type == "array":
		return "[]" + schemaType(schema.Items.Schema)
	case schema.AdditionalProperties != nil:
		element := schemaType(schema.AdditionalProperties.Schema)
		if element == "int-or-string" {
			element = "any" // how the contract writes a list of resources
		}
		return "map[string]" + element
	case schema.Format != "":
		return schema.Type + ":" + schema.Format
	}
	return schema.Type
}

func schemaConstraints(t *testing.T, schema *apiextensionsv1.JSONSchemaProps) map[string]string {
	t.Helper()
	constraints := map[string]string{}
	add := func(key string, value any) {
		encoded, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if text := canonicalJSON(t, encoded); text != "null" && text != `""` && text != "false" {
			constraints[key] = text
		}
	}
	if schema.Default != nil {
		constraints["default"] = canonicalJSON(t, schema.Default.Raw)
	}
	add("enum", schema.Enum)
	add("minimum", schema.Minimum)
	add("maximum", schema.Maximum)
	add("minLength", schema.MinLength)
	add("maxLength", schema.MaxLength)
	add("minItems", schema.MinItems)
	add("maxItems", schema.MaxItems)
	add("pattern", schema.Pattern)
	add("list-type", schema.XListType)
	add("list-map-keys", schema.XListMapKeys)
	add("map-type", schema.XMapType)
	add("preserve-unknown-fields", schema.XPreserveUnknownFields)
	return constraints
}

// clusterFields returns the fields of Cluster, which is described by OpenAPI
// definitions of its own.
func clusterFields(t *testing.T) map[string]fieldRow {
	t.Helper()
	definitions := clusterv1alpha1.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef("#/" + name)
	})
	rows := map[string]fieldRow{}
	flattenDefinition(t, "", clusterv1alpha1.Cluster{}.OpenAPIModelName(), definitions, rows)
	return rows
}

func flattenDefinition(t *testing.T, prefix, name string, definitions map[string]common.OpenAPIDefinition, rows map[string]fieldRow) {
	t.Helper()
	schema := definitions[name].Schema
	for field, property := range schema.Properties {
		if prefix == "" && (field == "apiVersion" || field == "kind" || field == "metadata") {
			continue
		}
		path := prefix + field
		row := fieldRow{
			Type:        definitionType(&property, definitions),
			Required:    slices.Contains(schema.Required, field),
			Constraints: map[string]string{},
		}
		// The generator gives structs an empty default, which says nothing.
		if property.Default != nil && property.Ref.String() == "" && len(property.AllOf) == 0 {
			encoded, err := json.Marshal(property.Default)
			if err != nil {
				t.Fatal(err)
			}
			row.Constraints["default"] = canonicalJSON(t, encoded)
		}
		rows[path] = row
		if property.Items != nil {
			flattenDefinition(t, path+"[].", refName(property.Items.Schema), definitions, rows)
		} else {
			flattenDefinition(t, path+".", refName(&property), definitions, rows)
		}
	}
}

func refName(schema *spec.Schema) string {
	name := schema.Ref.String()
	if len(schema.AllOf) == 1 {
		name = schema.AllOf[0].Ref.String()
	}
	return strings.TrimPrefix(name, "#/")
}

func definitionType(schema *spec.Schema, definitions map[string]common.OpenAPIDefinition) string {
	if name := refName(schema); name != "" {
		if _, ours := definitions[name]; ours {
			return "object"
		}
		return name[strings.LastIndex(name, ".")+1:]
	}
	switch {
	case schema.Items != nil:
		return "[]" + definitionType(schema.Items.Schema, definitions)
	case schema.AdditionalProperties != nil:
		return "map[string]" + definitionType(schema.AdditionalProperties.Schema, definitions)
	case schema.Format != "":
		return schema.Type[0] + ":" + schema.Format
	}
	return schema.Type[0]
}

// TestKindsMatchContract compares names, scope, subresources and columns with the table in testdata.
func TestKindsMatchContract(t *testing.T) {
	want := map[string][]string{}
	for _, cells := range readTable(t, "testdata/kinds.tsv") {
		if cells[2] == clusterv1alpha1.KindCluster {
			continue // not a custom resource: its registry says all this
		}
		want[cells[0]+" "+cells[1]+" "+cells[2]] = cells[3:]
	}
	got := map[string][]string{}
	for _, definition := range allDefinitions(t) {
		names := definition.Spec.Names
		for _, version := range definition.Spec.Versions {
			row := []string{
				names.Plural, string(definition.Spec.Scope), strings.Join(names.ShortNames, ","), strings.Join(names.Categories, ","),
				"", "", "", columns(version.AdditionalPrinterColumns),
			}
			if version.Served {
				row[4] = "served"
			}
			if version.Storage {
				row[5] = "storage"
			}
			if version.Subresources != nil && version.Subresources.Status != nil {
				row[6] = "status"
			}
			got[definition.Spec.Group+" "+version.Name+" "+names.Kind] = row
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds differ (-contract +ours):\n%s", diff)
	}
}

func columns(definitions []apiextensionsv1.CustomResourceColumnDefinition) string {
	texts := make([]string, len(definitions))
	for i, column := range definitions {
		texts[i] = fmt.Sprintf("%s=%s(%s)", column.Name, column.JSONPath, column.Type)
	}
	return strings.Join(texts, " ")
}

// TestEveryFieldIsDescribed keeps kubectl explain useful.
func TestEveryFieldIsDescribed(t *testing.T) {
	for _, definition := range allDefinitions(t) {
		for _, version := range definition.Spec.Versions {
			for _, path := range undescribed("", version.Schema.OpenAPIV3Schema) {
				t.Errorf("%s: %s has no description", definition.Name, path)
			}
		}
	}
}

func undescribed(prefix string, schema *apiextensionsv1.JSONSchemaProps) []string {
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		path := prefix + name
		if property.Description == "" && path != "metadata" {
			missing = append(missing, path)
		}
		if property.Items != nil {
			missing = append(missing, undescribed(path+"[].", property.Items.Schema)...)
		}
		missing = append(missing, undescribed(path+".", &property)...)
	}
	return missing
}
