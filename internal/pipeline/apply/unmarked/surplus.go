package unmarked

import (
	"bytes"
	"encoding/json"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// hasSurplus returns whether fields, as fieldsV1, have a path that an object has not.
func hasSurplus(object, fields map[string]any) bool {
	raw, err := json.Marshal(fields)
	if err != nil {
		return true // cannot happen: it was read from JSON; another apply does no harm
	}
	var set fieldpath.Set
	if set.FromJSON(bytes.NewReader(raw)) != nil {
		return true
	}
	surplus := false
	set.Iterate(func(path fieldpath.Path) { surplus = surplus || !has(object, path) }) // All panics when its loop ends early
	return surplus
}

// has returns whether there is something at a path below an object.
func has(at any, path fieldpath.Path) bool {
	for _, element := range path {
		next, found := step(at, element)
		if !found {
			return false
		}
		at = next
	}
	return true
}

// step returns what an element of a path leads to. A key that an item lacks has a default that is not known here.
func step(at any, element fieldpath.PathElement) (any, bool) {
	if element.FieldName != nil {
		fields, _ := at.(map[string]any)
		next, found := fields[*element.FieldName]
		return next, found
	}
	items, _ := at.([]any)
	for i, item := range items {
		fields, isMap := item.(map[string]any)
		switch {
		case element.Index != nil && *element.Index == i,
			element.Value != nil && value.Equals(*element.Value, value.NewValueInterface(item)),
			element.Key != nil && isMap && matches(fields, *element.Key):
			return item, true
		}
	}
	return nil, false
}

func matches(item map[string]any, keys value.FieldList) bool {
	for _, key := range keys {
		if present, has := item[key.Name]; has && !value.Equals(key.Value, value.NewValueInterface(present)) {
			return false
		}
	}
	return true
}
