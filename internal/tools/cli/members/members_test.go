package members

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
)

// columns makes a table as a server does: the first word of each row is the name, and the second the namespace.
func columns(names string, rows ...string) *metav1.Table {
	out := &metav1.Table{}
	for name := range strings.FieldsSeq(names) {
		out.ColumnDefinitions = append(out.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, r := range rows {
		namespace, text, _ := strings.Cut(r, "/")
		object := &unstructured.Unstructured{Object: map[string]any{}}
		object.SetNamespace(namespace)
		var cells []any
		for cell := range strings.FieldsSeq(text) {
			cells = append(cells, cell)
		}
		if len(cells) > 1 {
			object.SetName(cells[0].(string))
			object.Object["value"] = cells[1]
		}
		out.Rows = append(out.Rows, metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: object}})
	}
	return out
}

func TestTablesAreMerged(t *testing.T) {
	type part struct {
		cluster string
		table   *metav1.Table
	}
	cases := map[string]struct {
		parts []part
		sort  string
		want  string
	}{
		"SortedByNamespaceNameAndCluster": {
			parts: []part{{"b", columns("Name Ready", "z/web 1", "a/web 2")}, {"a", columns("Name Ready", "z/web 3", "a/zoo 4")}},
			want:  "NAME CLUSTER READY\nweb b 2\nzoo a 4\nweb a 3\nweb b 1\n",
		},
		"AColumnThatOneClusterLacks": {
			parts: []part{{"a", columns("Name Ready", "n/web 1")}, {"b", columns("Name Age Ready", "n/web 5d 2")}},
			want:  "NAME CLUSTER READY AGE\nweb a 1 <none>\nweb b 2 5d\n",
		},
		"NumbersAndQuantitiesByAmount": {
			parts: []part{{"a", columns("Name V", "n/x 1Gi", "n/y 200Mi")}, {"b", columns("Name V", "n/z 3", "n/t text")}}, sort: ".value",
			want: "NAME CLUSTER V\nz b 3\ny a 200Mi\nx a 1Gi\nt b text\n",
		},
		"TiesOfAFieldByNameAndCluster": {
			parts: []part{{"b", columns("Name V", "n/web 1")}, {"a", columns("Name V", "n/web 1", "n/app 1")}}, sort: "{.value}",
			want: "NAME CLUSTER V\napp a 1\nweb a 1\nweb b 1\n",
		},
		"AFieldThatNoObjectHas": {
			parts: []part{{"a", columns("Name V", "n/b 1", "n/a 2")}}, sort: ".none",
			want: "NAME CLUSTER V\na a 2\nb a 1\n",
		},
		"RowsThatDoNotMatchTheirColumns": {
			parts: []part{{"a", columns("Name Ready", "n/web", "n/b 1 2 3")}},
			want:  "NAME CLUSTER READY\nweb a <none>\nb a 1\n",
		},
		"NoColumns": {parts: []part{{"a", columns("", "n/web 1")}}, want: "CLUSTER\na\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var merged table
			for _, p := range tc.parts {
				merged.add(p.cluster, p.table)
			}
			if err := merged.sort(tc.sort); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(merged.print(), &out); err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for line := range strings.Lines(out.String()) {
				got.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
			}
			if got.String() != tc.want {
				t.Errorf("it printed\n%swant\n%s", got.String(), tc.want)
			}
		})
	}
	if err := new(table).sort("{.a"); err == nil {
		t.Error("a path that is not closed is no error")
	}
}

func TestEventFields(t *testing.T) {
	cases := map[string]struct{ fields, about, types, want, err string }{
		"Nothing":     {},
		"ForAnObject": {about: "deploy/web", want: "involvedObject.kind=kind of deploy,involvedObject.name=web"},
		"OneType":     {fields: "reason=Killing", types: "Warning Warning", want: "reason=Killing,type=Warning"},
		"BothTypes":   {types: "Warning Normal"},
		"NoType":      {types: "Odd", err: `"Odd" is none of Normal, Warning`},
		"NoName":      {about: "Deployment", err: "is not TYPE/NAME"},
		"AFieldMore":  {about: "Pod/a,type=Normal", err: "is not TYPE/NAME"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			selector, err := eventFields(tc.fields, tc.about, strings.Fields(tc.types))
			got := ""
			if err == nil {
				got = selector(func(resource string) string { return "kind of " + resource })
			}
			if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("it is %q, %v", got, err)
			}
		})
	}
}

// TestTheLatestEventIsLast: events of the older API have one time, those of the newer one another.
func TestTheLatestEventIsLast(t *testing.T) {
	event := func(name string, fields map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: fields}
		u.SetName(name)
		u.SetCreationTimestamp(metav1.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC))
		return u
	}
	var events table
	for _, e := range []*unstructured.Unstructured{
		event("d", map[string]any{"lastTimestamp": "2026-01-02T03:30:00Z"}),
		event("c", map[string]any{"eventTime": "2026-01-02T03:01:00.000001Z", "lastTimestamp": nil}),
		event("e", map[string]any{"eventTime": "2026-01-02T03:01:00.000000Z", "series": map[string]any{"lastObservedTime": "2026-01-02T04:00:00.5Z"}}),
		event("b", map[string]any{"eventTime": "2026-01-02T03:01:00.000000Z"}),
		event("a", map[string]any{}),
	} {
		events.rows = append(events.rows, row{object: e})
	}
	events.sortBy(lastSeen)
	order := ""
	for _, r := range events.rows {
		order += r.object.GetName()
	}
	if order != "abcde" {
		t.Errorf("the order is %s", order)
	}
}

func TestOneType(t *testing.T) {
	for args, want := range map[string]string{"pods": "pods ", "pod web": "pod web", "deploy/web": "deploy web"} {
		if kind, name, err := oneType(strings.Fields(args)); err != nil || kind+" "+name != want {
			t.Errorf("%s: %q %q, %v", args, kind, name, err)
		}
	}
	for _, args := range []string{"pods,services", "pod/a pod/b", "pods a b", "a/b/c"} {
		if _, _, err := oneType(strings.Fields(args)); err == nil {
			t.Errorf("%s is accepted", args)
		}
	}
}
