package drifted

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// Graft returns an object with the value that another one has at a path, or without the field if that has none. It returns false if the
// object has no place for it: a list item on the way, or the field itself, is in neither of them, or has no path of its own.
func Graft(to, from *unstructured.Unstructured, path string) (*unstructured.Unstructured, bool) {
	if strings.Contains(path, "[]") {
		return nil, false
	}
	out := to.DeepCopy()
	if _, ok := graft(out.Object, from.Object, "", path); !ok {
		return nil, false
	}
	return out, true
}

// graft returns value with what is changed below it.
func graft(value, from any, at, path string) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		there, _ := from.(map[string]any)
		return v, graftField(v, there, at, path)
	case []any:
		there, _ := from.([]any)
		return graftItem(v, there, at, path)
	default:
		return value, false
	}
}

func graftField(fields, there map[string]any, at, path string) bool {
	for key := range keysOf(fields, there) {
		p := at + "/" + key
		found, exists := there[key]
		if p == path && exists {
			fields[key] = runtime.DeepCopyJSONValue(found)
			return true
		}
		if p == path {
			delete(fields, key)
			return true
		}
		if !isBelow(path, p) {
			continue
		}
		child, exists := fields[key]
		if _, isList := found.([]any); !exists && isList {
			child = []any{}
		} else if !exists {
			child = map[string]any{}
		}
		if changed, ok := graft(child, found, p, path); ok {
			fields[key] = changed
			return true
		}
	}
	return false
}

func graftItem(list, there []any, at, path string) ([]any, bool) {
	for i, item := range list {
		p := at + ssa.ItemPath(item)
		other, exists := itemAt(there, ssa.ItemPath(item))
		if p == path && exists {
			list[i] = runtime.DeepCopyJSONValue(other)
			return list, true
		}
		if p == path {
			return append(list[:i:i], list[i+1:]...), true
		}
		if !isBelow(path, p) {
			continue
		}
		if changed, ok := graft(item, other, p, path); ok {
			list[i] = changed
			return list, true
		}
	}
	for _, item := range there {
		if at+ssa.ItemPath(item) == path {
			return append(list, runtime.DeepCopyJSONValue(item)), true
		}
	}
	return list, false
}

func isBelow(path, at string) bool {
	return strings.HasPrefix(path, at+"/") || strings.HasPrefix(path, at+"[")
}

func keysOf(maps ...map[string]any) map[string]bool {
	keys := map[string]bool{}
	for _, m := range maps {
		for key := range m {
			keys[key] = true
		}
	}
	return keys
}

func itemAt(list []any, path string) (any, bool) {
	for _, item := range list {
		if ssa.ItemPath(item) == path {
			return item, true
		}
	}
	return nil, false
}
