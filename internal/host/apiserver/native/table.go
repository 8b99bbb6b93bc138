package native

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Row returns the cells of an object.
type Row func(object runtime.Object, meta metav1.Object, name, age string) ([]any, error)

// Table makes a row of an object, or of each object of a list.
func Table(object, options runtime.Object, columns []metav1.TableColumnDefinition, row Row) (*metav1.Table, error) {
	shown := &metav1.Table{}
	if list, err := meta.ListAccessor(object); err == nil {
		shown.ResourceVersion = list.GetResourceVersion()
		shown.Continue = list.GetContinue()
		shown.RemainingItemCount = list.GetRemainingItemCount()
	} else if single, err := meta.CommonAccessor(object); err == nil {
		shown.ResourceVersion = single.GetResourceVersion()
	}
	if wanted, ok := options.(*metav1.TableOptions); !ok || !wanted.NoHeaders {
		shown.ColumnDefinitions = columns
	}
	var err error
	shown.Rows, err = metatable.MetaToTableRow(object, row)
	return shown, err
}
