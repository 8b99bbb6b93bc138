package merge

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// tableKind is what an API server makes of objects for kubectl.
const tableKind = "Table"

// column is the column in which a Table has the cluster of each object.
func column() map[string]any {
	return map[string]any{
		"name": "Cluster", "type": "string", "format": "", "priority": int64(0), "description": "Cluster of the object.",
	}
}

// Mark notes in an object from which cluster it is, and its version.
func Mark(object map[string]any, cluster, version string) {
	u := unstructured.Unstructured{Object: object}
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[clusterv1alpha1.CachedFromClusterAnnotation] = cluster
	u.SetAnnotations(annotations)
	if version != "" {
		u.SetResourceVersion(version)
	}
}

// Trim removes what only writers of an object need.
func Trim(object map[string]any) {
	unstructured.RemoveNestedField(object, "metadata", "managedFields")
	unstructured.RemoveNestedField(object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
}

// RowObject is the object of a row of a Table, nil if the client requests none.
func RowObject(row any) map[string]any {
	fields, _ := row.(map[string]any)
	object, _ := fields["object"].(map[string]any)
	return object
}

// IsTable returns whether an answer is a Table.
func IsTable(object map[string]any) bool {
	version, _ := object["apiVersion"].(string)
	return object["kind"] == tableKind && strings.HasPrefix(version, metav1.GroupName+"/")
}

// InNamespaces keeps objects of the namespaces; nil are all.
func InNamespaces(object map[string]any, namespaces []string) bool {
	if namespaces == nil || object == nil {
		return namespaces == nil
	}
	namespace, _, _ := unstructured.NestedString(object, "metadata", "namespace")
	return slices.Contains(namespaces, namespace)
}

// Table lines up the rows of Tables of different clusters.
type Table struct {
	columns []any // those of the first Table, without that of the cluster
	names   []string
}

func nameOf(column any) string {
	fields, _ := column.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}

// Definitions are the columns of the whole Table, that of the cluster behind the first.
func (t *Table) Definitions() []any {
	if len(t.columns) == 0 {
		return []any{column()}
	}
	return slices.Insert(slices.Clone(t.columns), 1, any(column()))
}

// Begin takes the columns of the first Table that has some.
func (t *Table) Begin(columns []any) {
	if t.columns != nil || len(columns) == 0 {
		return
	}
	t.columns = columns
	for _, c := range columns {
		t.names = append(t.names, nameOf(c))
	}
}

// Row puts the cells of a row of a cluster, which has these columns, in the order of the whole Table. Cells of other columns are dropped.
func (t *Table) Row(row any, columns []any, cluster string) any {
	fields, ok := row.(map[string]any)
	if !ok {
		return row
	}
	cells, _ := fields["cells"].([]any)
	ordered := make([]any, len(t.names))
	for i, c := range columns {
		if at := slices.Index(t.names, nameOf(c)); at >= 0 && i < len(cells) {
			ordered[at] = cells[i]
		}
	}
	fields["cells"] = slices.Insert(ordered, min(1, len(ordered)), any(cluster))
	return fields
}

// ObjectOf decodes an object; whole numbers stay whole.
func ObjectOf(text []byte) (map[string]any, error) {
	var object map[string]any
	if err := utiljson.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("reading an object: %w", err)
	}
	return object, nil
}
