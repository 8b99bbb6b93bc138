package drifted

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// ValuesAt returns the values of an object at paths in the form of package ssa; a path that the object does not have is missing. Several
// items of a list may have one path if none of the usual keys identifies them: there is no value of these.
func ValuesAt(obj *unstructured.Unstructured, paths []string) map[string]any {
	wanted := make(map[string]bool, len(paths))
	for _, path := range paths {
		wanted[path] = !strings.Contains(path, "[]")
	}
	values := map[string]any{}
	each(obj.Object, "", func(path string, value any) {
		if wanted[path] {
			values[path] = value
		}
	})
	return values
}

// each visits every node below a value.
func each(value any, path string, visit func(path string, value any)) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			visit(path+"/"+key, child)
			each(child, path+"/"+key, visit)
		}
	case []any:
		for _, item := range v {
			p := path + ssa.ItemPath(item)
			visit(p, item)
			each(item, p, visit)
		}
	}
}

// unlike returns the fields at or below paths whose value in live is not the wanted one, each as deep as it differs, without those by which
// the control plane recognizes its objects. A map or list that is owned as a whole differs as a whole.
func (c *comparison) unlike(paths []string) []string {
	desired, has := ValuesAt(c.wanted, paths), ValuesAt(c.live, paths)
	c.lost = paths
	var unlike []string
	add := func(path string) {
		if !isOurs(path) {
			unlike = append(unlike, path)
		}
	}
	for _, path := range paths {
		value, known := desired[path]
		switch found, exists := has[path]; {
		case !known || !exists:
			add(path)
		default:
			c.differ(value, found, path, add)
		}
	}
	slices.Sort(unlike)
	return slices.Compact(unlike)
}

// all returns the paths of all fields of wanted that live does not have with that value, in order.
func (c *comparison) all() []string {
	var paths []string
	c.differ(content(c.wanted), content(c.live), "", func(path string) {
		if !isOurs(path) {
			paths = append(paths, path)
		}
	})
	slices.Sort(paths)
	return slices.Compact(paths)
}

// content is an object without what identifies it.
func content(obj *unstructured.Unstructured) map[string]any {
	fields := map[string]any{}
	for key, value := range obj.Object {
		switch metadata, _ := value.(map[string]any); key {
		case "apiVersion", "kind":
		case "metadata":
			labels, _ := metadata["labels"].(map[string]any)
			annotations, _ := metadata["annotations"].(map[string]any)
			fields[key] = map[string]any{"labels": labels, "annotations": annotations}
		default:
			fields[key] = value
		}
	}
	return fields
}

// differ visits the topmost paths under wanted whose value in live is another one.
func (c *comparison) differ(wanted, live any, path string, visit func(path string)) {
	if c.differsAsWhole(wanted, live, path) {
		visit(path)
		return
	}
	switch w := wanted.(type) {
	case map[string]any:
		there, isMap := live.(map[string]any)
		if !isMap {
			break
		}
		for key, child := range w {
			c.differ(child, there[key], path+"/"+key, visit)
		}
		return
	case []any:
		there, isList := live.([]any)
		if !isList || !identified(w) || !identified(there) {
			break
		}
		items := map[string]any{}
		for _, item := range there {
			items[ssa.ItemPath(item)] = item
		}
		for _, item := range w {
			key := ssa.ItemPath(item)
			c.differ(item, items[key], path+key, visit)
		}
		return
	}
	if !asWanted(wanted, live) {
		visit(path)
	}
}

// asWanted returns whether a value is the wanted one, or what defaults make of it: they add to what has parts, and what is empty may be
// missing.
func asWanted(wanted, live any) bool {
	switch wanted.(type) {
	case map[string]any, []any:
		return ssa.Defaulted(wanted, live)
	}
	return ssa.SameValue(wanted, live) || live == nil && ssa.Defaulted(wanted, live)
}

// identified returns whether each item of a list has a path of its own.
func identified(list []any) bool {
	seen := map[string]bool{}
	for _, item := range list {
		path := ssa.ItemPath(item)
		if _, isMap := item.(map[string]any); !isMap || path == "[]" || seen[path] {
			return false
		}
		seen[path] = true
	}
	return true
}

// isOurs returns whether a path is one of the labels and annotations that the control plane sets by itself.
func isOurs(path string) bool {
	if annotation, ok := strings.CutPrefix(path, "/metadata/annotations/"); ok && ssa.IsOurs(annotation) {
		return true
	}
	label, ok := strings.CutPrefix(path, "/metadata/labels/")
	return ssa.IsMark(path) || ok && ssa.IsOurs(label)
}

// Without returns an object without fields, and the paths of all that was in these. An item of a list goes with its key.
func Without(obj *unstructured.Unstructured, paths []string) (rest *unstructured.Unstructured, removed []string) {
	gone := map[string]bool{}
	for _, path := range paths {
		gone[path] = true
	}
	fields, _ := without(obj.Object, "", gone, func(path string) { removed = append(removed, path) }).(map[string]any)
	return &unstructured.Unstructured{Object: fields}, removed
}

func without(value any, path string, gone map[string]bool, removed func(string)) any {
	drop := func(path string, value any) bool {
		if !gone[path] {
			return false
		}
		removed(path)
		each(value, path, func(path string, _ any) { removed(path) })
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		rest := make(map[string]any, len(v))
		for key, child := range v {
			if p := path + "/" + key; !drop(p, child) {
				rest[key] = without(child, p, gone, removed)
			}
		}
		return rest
	case []any:
		rest := make([]any, 0, len(v))
		for _, item := range v {
			p := path + ssa.ItemPath(item)
			if drop(p, item) {
				continue
			}
			var below []string
			kept := without(item, p, gone, func(path string) { below = append(below, path) })
			if path+ssa.ItemPath(kept) != p { // without its key it is another item
				gone[p] = true
				drop(p, item)
				continue
			}
			for _, path := range below {
				removed(path)
			}
			rest = append(rest, kept)
		}
		return rest
	default:
		return value
	}
}
