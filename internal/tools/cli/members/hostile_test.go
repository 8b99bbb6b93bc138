package members

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// TestAMemberWritesOneRow: whatever a member has in columns, names and labels, a row is one line and has the columns that it has.
func TestAMemberWritesOneRow(t *testing.T) {
	const evil = "web\nother\tm2\x1b[2J\r\u202e\f\v"
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1\nx", "kind": "Pod\nm2 pod/x", "metadata": map[string]any{
		"name": evil, "namespace": evil, "labels": map[string]any{"app": evil},
	}}}
	var all table
	all.add("m1", &metav1.Table{
		ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name", Type: "string"}, {Name: "State" + evil, Type: "string"}},
		Rows: []metav1.TableRow{
			{Cells: []any{evil, evil}, Object: runtime.RawExtension{Object: object}},
			{Cells: []any{[]any{evil}, map[string]any{evil: evil}}, Object: runtime.RawExtension{Object: object}},
		},
	})
	for name, options := range map[string]printers.PrintOptions{
		"Plain": {}, "Wide": {Wide: true}, "Namespace": {WithNamespace: true}, "Labels": {ShowLabels: true, ColumnLabels: []string{"app"}},
		"Kind": {WithKind: true, Kind: schema.GroupKind{Kind: "Pod"}},
	} {
		var out bytes.Buffer
		if err := printers.NewTablePrinter(options).PrintObj(all.print(), &out); err != nil {
			t.Fatal(err)
		}
		if strings.Count(out.String(), "\n") != 3 || strings.ContainsAny(out.String(), "\x1b\r\t\f\v\u202e") {
			t.Errorf("%s: printed is %q", name, out.String())
		}
	}
	var out bytes.Buffer
	if err := printObject(cli.Streams{Out: &out}, &printers.NamePrinter{}, "name", "m1", object); err != nil || strings.Count(out.String(), "\n") != 1 || !strings.HasPrefix(out.String(), "m1 ") {
		t.Errorf("a name is %q: %v", out.String(), err)
	}
}

// FuzzCells: a cell of a member is one cell, and numbers stay numbers.
func FuzzCells(f *testing.F) {
	f.Add([]byte(`"a\nb\tc\u001b"`))
	f.Add([]byte(`["a\u000b",{"b":"\f"}]`))
	f.Add([]byte(`1.5`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var cell any
		if json.Unmarshal(raw, &cell) != nil {
			return
		}
		switch got := printable(cell).(type) {
		case nil, bool, float64:
		case string:
			if got != cli.Printable(got) {
				t.Fatalf("a cell is %q", got)
			}
		default:
			t.Fatalf("a cell is %T", got)
		}
	})
}
