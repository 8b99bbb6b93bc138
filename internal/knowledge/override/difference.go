package override

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Edit is a field that a rule changed. From is nil for a field that it added, To for one that it removed.
type Edit struct {
	// Path is the JSON pointer of the field.
	Path     string
	From, To any
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// Difference lists the fields that differ between two values of JSON, by path.
func Difference(path string, from, to any) []Edit {
	switch before := from.(type) {
	case map[string]any:
		if after, ok := to.(map[string]any); ok {
			keys := maps.Clone(before)
			maps.Copy(keys, after)
			var edits []Edit
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				edits = append(edits, Difference(path+"/"+pointerEscapes.Replace(key), before[key], after[key])...)
			}
			return edits
		}
	case []any:
		if after, ok := to.([]any); ok && len(before) == len(after) {
			var edits []Edit
			for i := range before {
				edits = append(edits, Difference(path+"/"+strconv.Itoa(i), before[i], after[i])...)
			}
			return edits
		}
	}
	if reflect.DeepEqual(from, to) {
		return nil
	}
	return []Edit{{Path: path, From: from, To: to}}
}
