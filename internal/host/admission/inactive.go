package admission

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"github.com/flagship-k8s/flagship/api/crds"
)

// warnInactive warns of every field that is set, or changed, and that nothing acts on. Call it before defaults are set: a user
// is not warned of what he did not write.
func warnInactive(ctx context.Context, inactive []crds.InactiveField, object, old subject) {
	if len(inactive) == 0 {
		return
	}
	custom, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	var before any
	if old, ok := old.(*unstructured.Unstructured); ok {
		before = old.Object
	}
	for _, f := range inactive {
		for _, path := range changedAt(custom.Object, before, f.Path, nil) {
			warning.AddWarning(ctx, "", path.String()+" "+f.Text)
		}
	}
}

// changedAt lists where a field is set to something else than before. Items of lists are compared by their position.
func changedAt(value, before any, names []string, at *field.Path) []*field.Path {
	if items, ok := value.([]any); ok && len(names) > 0 {
		olds, _ := before.([]any)
		var found []*field.Path
		for i, item := range items {
			var old any
			if i < len(olds) {
				old = olds[i]
			}
			found = append(found, changedAt(item, old, names, at.Index(i))...)
		}
		return found
	}
	if len(names) == 0 {
		if value == nil || reflect.DeepEqual(value, before) {
			return nil
		}
		return []*field.Path{at}
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	olds, _ := before.(map[string]any)
	child := field.NewPath(names[0])
	if at != nil {
		child = at.Child(names[0])
	}
	return changedAt(fields[names[0]], olds[names[0]], names[1:], child)
}
