package ssa

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Paths have two forms here. API servers write `.spec.containers[name="a"].image`; which keys stand in the brackets is
// in a schema that we do not have. Our own form, `/spec/containers[name=a]/image`, names a list item by the first of
// a few usual keys that it has, so that the same item of two versions of an object has one name. Conflicts are
// translated into it by finding their item in the object.

// itemNames are the keys that usually identify items of a list, in order of preference.
var itemNames = []string{"name", "key", "type", "ip", "containerPort", "port", "mountPath", "devicePath", "topologyKey", "id", "groupName"}

// ItemPath is the last part of a list item's path.
func ItemPath(item any) string {
	fields, ok := item.(map[string]any)
	if !ok {
		return "[=" + scalar(item) + "]"
	}
	for _, name := range itemNames {
		if value, ok := fields[name]; ok && isScalar(value) {
			return "[" + name + "=" + scalar(value) + "]"
		}
	}
	return "[]"
}

func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	default:
		return true
	}
}

// scalar writes a value as API servers do in paths.
func scalar(value any) string {
	switch v := value.(type) {
	case string:
		return strconv.Quote(v)
	case float64:
		if v == float64(int64(v)) {
			return strconv.FormatInt(int64(v), 10)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// eachPath visits the path of every node under value, leaves and inner ones.
func eachPath(value any, path string, visit func(string)) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			visit(path + "/" + key)
			eachPath(child, path+"/"+key, visit)
		}
	case []any:
		for _, item := range v {
			p := path + ItemPath(item)
			visit(p)
			eachPath(item, p, visit)
		}
	}
}

// unowned visits the paths under value that are not in fields, which is fieldsV1 at the same place. Below a path that
// is visited nothing else is.
func unowned(value any, fields map[string]any, path string, visit func(string)) {
	switch v := value.(type) {
	case map[string]any:
		if !hasChildren(fields) {
			return // an atomic map is owned as a whole
		}
		for key, child := range v {
			p := path + "/" + key
			if owned, ok := fields["f:"+key].(map[string]any); ok {
				unowned(child, owned, p, visit)
			} else {
				visit(p)
			}
		}
	case []any:
		if !hasChildren(fields) {
			return
		}
		items := itemsOf(fields)
		for _, item := range v {
			p := path + ItemPath(item)
			if owned, ok := items.find(item); ok {
				unowned(item, owned, p, visit)
			} else {
				visit(p)
			}
		}
	}
}

// altered visits the paths under value that are in fields, which is fieldsV1 at the same place, and have another value in
// live, with both values: that in live is nil if there is none. What is empty in value is owned as a place for the fields of others.
func altered(value, live any, fields map[string]any, path string, visit func(path string, value, live any)) {
	switch v := value.(type) {
	case map[string]any:
		there, isMap := live.(map[string]any)
		if len(v) == 0 && isMap {
			return
		}
		if !isMap || !hasChildren(fields) {
			break
		}
		for key, child := range v {
			if owned, ok := fields["f:"+key].(map[string]any); ok {
				altered(child, there[key], owned, path+"/"+key, visit)
			}
		}
		return
	case []any:
		there, isList := live.([]any)
		if len(v) == 0 && isList {
			return
		}
		if !isList || !hasChildren(fields) {
			break
		}
		items := itemsOf(fields)
		for _, item := range v {
			if owned, ok := items.pick(item); ok {
				owned.altered(item, there, path+ItemPath(item), visit)
			}
		}
		return
	}
	if !SameValue(value, live) {
		visit(path, value, live)
	}
}

// altered compares an item of a list with the one of the same keys in the list as it is.
func (o ownedItem) altered(item any, there []any, path string, visit func(path string, value, live any)) {
	for _, candidate := range there {
		fields, isMap := candidate.(map[string]any)
		switch {
		case isMap && o.keys != nil && matchesKeys(fields, o.keys):
			altered(item, candidate, o.fields, path, visit)
			return
		case !isMap && o.keys == nil && o.value == scalar(candidate):
			return
		}
	}
	visit(path, item, nil)
}

// Defaulted returns whether an API server that sets defaults may have made live of value: what value sets is there, and the
// rest, or what is zero in value, may be anything.
func Defaulted(value, live any) bool {
	switch v := value.(type) {
	case map[string]any:
		there, isMap := live.(map[string]any)
		if !isMap {
			return len(v) == 0
		}
		for key, child := range v {
			if !Defaulted(child, there[key]) {
				return false
			}
		}
		return true
	case []any:
		there, isList := live.([]any)
		if !isList || len(v) == 0 {
			return len(v) == 0
		}
		return len(v) == len(there) && slices.EqualFunc(v, there, Defaulted)
	case nil:
		return true
	case string:
		return v == "" || SameValue(value, live)
	case bool:
		return !v || SameValue(value, live)
	default:
		return scalar(value) == scalar(int64(0)) || SameValue(value, live)
	}
}

// stored returns whether live may be what an API server stored of value, all of which we own: with its defaults, and without fields that
// it does not store, such as those of a feature that is off. Who else removes a field that we own takes it from us.
func stored(value, live any) bool {
	if live == nil {
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		there, isMap := live.(map[string]any)
		for key, child := range v {
			if !isMap || !stored(child, there[key]) {
				return false
			}
		}
		return true
	case []any:
		there, isList := live.([]any)
		return len(v) == 0 || isList && len(v) == len(there) && slices.EqualFunc(v, there, stored)
	default:
		return Defaulted(value, live)
	}
}

// SameValue returns whether two values read from JSON are equal. Numbers are, whichever Go type they were read into.
func SameValue(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, SameValue)
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, SameValue)
	case string, bool, nil:
		return a == b
	default:
		return isScalar(b) && scalar(a) == scalar(b)
	}
}

// ValueHash is the hash of a value read from JSON.
func ValueHash(value any) uint64 {
	h := fnv.New64a()
	raw, _ := json.Marshal(value) // was read from JSON; keys come out sorted
	h.Write(raw)                  // never fails, by the contract of hash.Hash
	return h.Sum64()
}

func hasChildren(fields map[string]any) bool {
	for key := range fields {
		if key != "." {
			return true
		}
	}
	return false
}

// ownedItem is one item of a list in fieldsV1.
type ownedItem struct {
	keys   map[string]string // of an item with fields
	value  string            // of a scalar item
	fields map[string]any
}

type ownedItems []ownedItem

func itemsOf(fields map[string]any) ownedItems {
	items := make(ownedItems, 0, len(fields))
	for key, child := range fields {
		owned, _ := child.(map[string]any)
		if text, ok := strings.CutPrefix(key, "k:"); ok {
			parsed := map[string]any{}
			if json.Unmarshal([]byte(text), &parsed) != nil {
				continue
			}
			keys := make(map[string]string, len(parsed))
			for name, value := range parsed {
				keys[name] = scalar(value)
			}
			items = append(items, ownedItem{keys: keys, fields: owned})
		} else if text, ok := strings.CutPrefix(key, "v:"); ok {
			var value any
			if json.Unmarshal([]byte(text), &value) == nil {
				items = append(items, ownedItem{value: scalar(value), fields: owned})
			}
		}
	}
	return items
}

func (items ownedItems) find(item any) (map[string]any, bool) {
	owned, ok := items.pick(item)
	return owned.fields, ok
}

// pick finds what is owned of an item.
func (items ownedItems) pick(item any) (ownedItem, bool) {
	fields, isMap := item.(map[string]any)
	for _, owned := range items {
		if isMap && owned.keys != nil && matchesKeys(fields, owned.keys) || !isMap && owned.keys == nil && owned.value == scalar(item) {
			return owned, true
		}
	}
	return ownedItem{}, false
}

// matchesKeys returns whether an item may be the one with these keys. A key it lacks has a default that is not known here.
func matchesKeys(item map[string]any, keys map[string]string) bool {
	for name, want := range keys {
		if have, ok := item[name]; ok && scalar(have) != want {
			return false
		}
	}
	return true
}

// spot is a place in an object.
type Spot struct {
	path  string // in our form
	Value any
	set   func(any)
	Drop  func()
}

// Path is the path of the place in our form.
func (s Spot) Path() string { return s.path }

// locate finds the field of a path in an API server's message. Dots in keys are ambiguous in such a path; what is in the
// object decides.
func Locate(here Spot, path string) (Spot, bool) {
	if path == "" {
		return here, true
	}
	switch v := here.Value.(type) {
	case map[string]any:
		return locateKey(here, v, path)
	case []any:
		return locateItem(here, v, path)
	default:
		return Spot{}, false
	}
}

func locateKey(here Spot, fields map[string]any, path string) (Spot, bool) {
	path, ok := strings.CutPrefix(path, ".")
	if !ok {
		return Spot{}, false
	}
	for key, child := range fields {
		rest, ok := strings.CutPrefix(path, key)
		if !ok || rest != "" && rest[0] != '.' && rest[0] != '[' {
			continue
		}
		there := Spot{
			path: here.path + "/" + key, Value: child,
			set:  func(value any) { fields[key] = value },
			Drop: func() { delete(fields, key) },
		}
		if found, ok := Locate(there, rest); ok {
			return found, true
		}
	}
	return Spot{}, false
}

func locateItem(here Spot, list []any, path string) (Spot, bool) {
	element, rest, ok := cutElement(path)
	if !ok {
		return Spot{}, false
	}
	for i, item := range list {
		if !matchesElement(item, i, element) {
			continue
		}
		there := Spot{
			path: here.path + ItemPath(item), Value: item,
			set:  func(value any) { list[i] = value },
			Drop: func() { here.set(slices.Delete(slices.Clone(list), i, i+1)) },
		}
		if found, ok := Locate(there, rest); ok {
			return found, true
		}
	}
	return Spot{}, false
}

// cutElement splits `[name="a"].image` into `name="a"` and `.image`.
func cutElement(path string) (element, rest string, ok bool) {
	if !strings.HasPrefix(path, "[") {
		return "", "", false
	}
	quoted := false
	for i := 1; i < len(path); i++ {
		switch {
		case quoted && path[i] == '\\':
			i++
		case path[i] == '"':
			quoted = !quoted
		case path[i] == ']' && !quoted:
			return path[1:i], path[i+1:], true
		}
	}
	return "", "", false
}

// matchesElement returns whether an item is meant by what stands in brackets: keys, a value after "=", or an index.
func matchesElement(item any, index int, element string) bool {
	if value, ok := strings.CutPrefix(element, "="); ok {
		return isScalar(item) && scalar(item) == value
	}
	if n, err := strconv.Atoi(element); err == nil {
		return n == index
	}
	fields, ok := item.(map[string]any)
	if !ok {
		return false
	}
	keys := map[string]string{}
	for _, pair := range splitPairs(element) {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return false
		}
		keys[name] = value
	}
	return matchesKeys(fields, keys)
}

// splitPairs splits at commas outside quotes.
func splitPairs(element string) []string {
	var pairs []string
	start, quoted := 0, false
	for i := 0; i < len(element); i++ {
		switch {
		case quoted && element[i] == '\\':
			i++
		case element[i] == '"':
			quoted = !quoted
		case element[i] == ',' && !quoted:
			pairs = append(pairs, element[start:i])
			start = i + 1
		}
	}
	return append(pairs, element[start:])
}
