package ssa

import "strings"

// Expand visits the paths under value that a pointer names. A pointer is written as a JSON pointer, or as a report of drift has the path:
// an item of a list follows as `/0` or `[name="a"]`, and `*` is any field or item.
func Expand(value any, pointer string, visit func(path string)) { expand(value, pointer, "", visit) }

func expand(value any, rest, path string, visit func(path string)) {
	if rest == "" {
		visit(path)
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			// A key with a slash may be escaped, or not.
			for _, name := range []string{"/*", "/" + Pointer(key), "/" + key} {
				if below, ok := cutStep(rest, name); ok {
					expand(child, below, path+"/"+key, visit)
					break
				}
			}
		}
	case []any:
		element, below, ok := cutElement(rest)
		if !ok && strings.HasPrefix(rest, "/") {
			end := strings.IndexAny(rest[1:], "/[") + 1
			if end == 0 {
				end = len(rest)
			}
			element, below, ok = rest[1:end], rest[end:], true
		}
		for i, item := range v {
			if ok && (element == "*" || matchesElement(item, i, element)) {
				expand(item, below, path+ItemPath(item), visit)
			}
		}
	}
}

// cutStep cuts a step off a pointer.
func cutStep(pointer, step string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(pointer, step)
	return rest, ok && (rest == "" || rest[0] == '/' || rest[0] == '[')
}
