package members

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"
	"k8s.io/kubectl/pkg/cmd/get"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// row is one object of a cluster: as its API server prints it, and as the API server returned it.
type row struct {
	cluster string
	cells   []any
	object  *unstructured.Unstructured
}

// table is the rows of several clusters. Clusters of other versions may have other columns: a row has those of its own cluster by name.
type table struct {
	columns []metav1.TableColumnDefinition
	rows    []row
}

// noCell is printed where a cluster has no such column, as kubectl prints an empty value.
const noCell = "<none>"

var clusterColumn = metav1.TableColumnDefinition{Name: "Cluster", Type: "string", Description: "The cluster that the object is in."}

// add appends the rows of a cluster. Columns that the table does not have yet follow those that it has.
func (t *table) add(cluster string, from *metav1.Table) {
	place := make([]int, len(from.ColumnDefinitions))
	for i, column := range from.ColumnDefinitions {
		column.Name = cli.Printable(column.Name)
		place[i] = slices.IndexFunc(t.columns, func(c metav1.TableColumnDefinition) bool { return c.Name == column.Name })
		if place[i] < 0 {
			place[i] = len(t.columns)
			t.columns = append(t.columns, column)
		}
	}
	for i := range from.Rows {
		r := row{cluster: cluster, cells: make([]any, len(t.columns))}
		for j := range r.cells {
			r.cells[j] = noCell
		}
		for j, cell := range from.Rows[i].Cells {
			if j < len(place) {
				r.cells[place[j]] = printable(cell)
			}
		}
		r.object, _ = from.Rows[i].Object.Object.(*unstructured.Unstructured)
		if r.object == nil {
			r.object = &unstructured.Unstructured{Object: map[string]any{}}
		}
		t.rows = append(t.rows, r)
	}
}

// printable is the value of a cell: numbers and truth values as they are, since these are aligned, the first line of everything else, as
// kubectl prints it.
func printable(cell any) any {
	switch cell.(type) {
	case nil, bool, int64, float64:
		return cell
	}
	first, rest := fmt.Sprint(cell), ""
	if at := strings.IndexAny(first, "\f\n\r"); at >= 0 {
		first, rest = first[:at], "..."
	}
	return cli.Printable(first) + rest
}

// named is the metadata of an object that the printer reads for columns of its own.
func named(obj *unstructured.Unstructured) *metav1.PartialObjectMetadata {
	labels := map[string]string{}
	for key, value := range obj.GetLabels() {
		labels[cli.Printable(key)] = cli.Printable(value)
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: cli.Printable(obj.GetNamespace()), Name: cli.Printable(obj.GetName()), Labels: labels,
	}}
}

// sort orders the rows by a field, if one is given, then by namespace, name and cluster, so that the copies of an object are together.
func (t *table) sort(field string) error {
	if field == "" {
		t.sortBy(func(*unstructured.Unstructured) string { return "" })
		return nil
	}
	expression, err := get.RelaxedJSONPathExpression(field)
	if err != nil {
		return err
	}
	parser := jsonpath.New("sorting").AllowMissingKeys(true)
	if err := parser.Parse(expression); err != nil {
		return err
	}
	t.sortBy(func(object *unstructured.Unstructured) string {
		found, err := parser.FindResults(object.Object)
		if err != nil || len(found) == 0 || len(found[0]) == 0 {
			return ""
		}
		return fmt.Sprint(found[0][0].Interface())
	})
	return nil
}

// sortBy orders the rows by a value, then by namespace, name and cluster.
func (t *table) sortBy(value func(*unstructured.Unstructured) string) {
	values := make(map[*unstructured.Unstructured]string, len(t.rows)) // each is computed once
	for _, r := range t.rows {
		values[r.object] = value(r.object)
	}
	slices.SortStableFunc(t.rows, func(a, b row) int {
		return cmp.Or(compareValues(values[a.object], values[b.object]), cmp.Compare(a.object.GetNamespace(), b.object.GetNamespace()),
			cmp.Compare(a.object.GetName(), b.object.GetName()), cmp.Compare(a.cluster, b.cluster))
	})
}

// compareValues compares numbers and quantities by their amount, and everything else as text. Numbers come first, so that the order is
// the same whatever the clusters return.
func compareValues(a, b string) int {
	x, errX := resource.ParseQuantity(a)
	y, errY := resource.ParseQuantity(b)
	switch {
	case errX == nil && errY == nil:
		return x.Cmp(y)
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return cmp.Compare(a, b)
}

// print returns what kubectl's printer takes. The column of the cluster follows that of the name.
func (t *table) print() *metav1.Table {
	at := min(1, len(t.columns))
	out := &metav1.Table{ColumnDefinitions: slices.Insert(slices.Clone(t.columns), at, clusterColumn)}
	for _, r := range t.rows {
		cells := slices.Clone(r.cells)
		for len(cells) < len(t.columns) {
			cells = append(cells, noCell)
		}
		out.Rows = append(out.Rows, metav1.TableRow{Cells: slices.Insert(cells, at, any(r.cluster)), Object: runtime.RawExtension{Object: named(r.object)}})
	}
	return out
}

// asTable decodes what a server returned for one request. Servers that make no tables return the object, which then has a name and an
// age.
func asTable(obj runtime.Object) (*metav1.Table, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("the server returned no object but %T", obj)
	}
	if u.GetKind() != "Table" || !strings.HasPrefix(u.GetAPIVersion(), metav1.GroupName+"/") {
		return &metav1.Table{
			ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name"}, {Name: "Age", Type: "string"}},
			Rows:              []metav1.TableRow{{Cells: []any{u.GetName(), age(u)}, Object: runtime.RawExtension{Object: u}}},
		}, nil
	}
	out := &metav1.Table{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, fmt.Errorf("reading a table: %w", err)
	}
	for i := range out.Rows {
		raw := out.Rows[i].Object.Raw
		if raw == nil {
			continue
		}
		object, err := runtime.Decode(unstructured.UnstructuredJSONScheme, raw)
		if err != nil {
			return nil, fmt.Errorf("reading an object of a table: %w", err)
		}
		out.Rows[i].Object.Object = object
	}
	return out, nil
}

func age(o metav1.Object) string {
	created := o.GetCreationTimestamp()
	if created.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(created.Time))
}
