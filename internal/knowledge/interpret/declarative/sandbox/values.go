package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What one result may be like.
const (
	maxDepth  = 64
	maxValues = 200_000
	// maxText bounds all text together: one long string may be in many places.
	maxText = 8 << 20
	// maxLarge is how many large integers are kept exactly.
	maxLarge = 10_000
)

// Values converts the values of objects to those of Lua and back, for one call.
type Values struct {
	vm *lua.LState
	// lists has the tables that were made of lists: an empty table does not show it.
	lists  map[*lua.LTable]bool
	values int
	text   int
	// large are the integers of the objects that a number of Lua does not hold exactly, by that number; nil without any.
	large map[float64]int64
	// compact leaves empty tables out, as for decoding into a Go type: an empty table may be a list or not.
	compact bool
}

// NewValues returns a converter for a machine.
func NewValues(vm *lua.LState) *Values {
	return &Values{vm: vm, lists: map[*lua.LTable]bool{}}
}

// Lua converts a value of an object to one of Lua.
func (t *Values) Lua(value any) lua.LValue {
	switch v := value.(type) {
	case nil:
		return lua.LNil
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		t.keepExact(v)
		return lua.LNumber(v)
	case int32:
		return lua.LNumber(v)
	case int:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case map[string]any:
		table := t.vm.CreateTable(0, len(v))
		for key, entry := range v {
			table.RawSetString(key, t.Lua(entry))
		}
		return table
	case []any:
		table := t.vm.CreateTable(len(v), 0)
		t.lists[table] = true
		for _, entry := range v {
			table.Append(t.Lua(entry))
		}
		return table
	default:
		return lua.LString(fmt.Sprint(v))
	}
}

// Result converts a value of Lua to one of an object. The reference is what the object has, or had, in its place.
func (t *Values) Result(value lua.LValue, reference any) (any, error) {
	t.values, t.text, t.compact = 0, 0, false
	return t.back(value, reference, 0)
}

// Decode converts a value of Lua to a Go value of a type with JSON tags.
func (t *Values) Decode(value lua.LValue, into any) error {
	t.values, t.text, t.compact = 0, 0, true
	plain, err := t.back(value, nil, 0)
	if err != nil {
		return err
	}
	data, err := json.Marshal(plain)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// Quantity parses a quantity that is not out of range.
func Quantity(text string) (resource.Quantity, error) {
	if err := inRange(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

// inRange refuses numbers that take the arithmetic of quantities minutes and gigabytes, such as 1e2147483647.
func inRange(text string) error {
	mantissa, exponent := text, ""
	if e := strings.IndexAny(text, "eE"); e >= 0 {
		mantissa, exponent = text[:e], text[e+1:]
	}
	if strings.Trim(mantissa, "+-.0123456789") == "" && (len(mantissa) > 100 || len(exponent) > 4) && strings.Trim(exponent, "+-0123456789") == "" {
		return fmt.Errorf("the number %.40s is out of range", text)
	}
	return nil
}

func (t *Values) back(value lua.LValue, reference any, depth int) (any, error) {
	if t.values++; t.values > maxValues {
		return nil, fmt.Errorf("it has more than %d values", maxValues)
	}
	switch v := value.(type) {
	case *lua.LNilType:
		return nil, nil
	case lua.LBool:
		return bool(v), nil
	case lua.LString:
		if t.compact {
			if err := inRange(string(v)); err != nil {
				return nil, err
			}
		}
		return string(v), t.count(string(v))
	case lua.LNumber:
		return t.number(float64(v))
	case *lua.LTable:
		if depth == maxDepth {
			return nil, fmt.Errorf("it is nested more than %d tables deep", maxDepth)
		}
		return t.table(v, reference, depth+1)
	default:
		return nil, fmt.Errorf("it contains a %s", v.Type())
	}
}

func (t *Values) count(text string) error {
	if t.text += len(text); t.text > maxText {
		return fmt.Errorf("it has more than %d bytes of text", maxText)
	}
	return nil
}

// exact is below which every integer is a number of Lua.
const exact = 1 << 53

// keepExact keeps an integer that a number of Lua cannot hold, so that a script that passes it on returns it as it was.
func (t *Values) keepExact(n int64) {
	if -exact < n && n < exact || len(t.large) == maxLarge {
		return
	}
	if t.large == nil {
		t.large = map[float64]int64{}
	}
	if _, known := t.large[float64(n)]; !known { // of several that are equal in Lua the first is returned
		t.large[float64(n)] = n
	}
}

// number is an integer wherever it can be: schemas of integers take no others.
func (t *Values) number(n float64) (any, error) {
	large, known := t.large[n]
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return nil, errors.New("it contains a number that is none")
	case known:
		return large, nil
	case n == math.Trunc(n) && math.Abs(n) < 1<<63:
		return int64(n), nil
	default:
		return n, nil
	}
}

func (t *Values) table(table *lua.LTable, reference any, depth int) (any, error) {
	names, places := 0, 0
	table.ForEach(func(key, _ lua.LValue) {
		switch key.Type() {
		case lua.LTString:
			names++
		case lua.LTNumber:
			places++
		}
	})
	_, list := reference.([]any)
	switch {
	case names > 0 && places > 0:
		return nil, errors.New("it contains a table with both names and numbers as keys")
	case places > 0 || names == 0 && (list || t.lists[table]):
		return t.list(table, reference, depth)
	default:
		return t.object(table, reference, depth)
	}
}

func (t *Values) object(table *lua.LTable, reference any, depth int) (any, error) {
	fields, _ := reference.(map[string]any)
	result := map[string]any{}
	var failed error
	table.ForEach(func(key, value lua.LValue) {
		if failed != nil {
			return
		}
		if t.compact && t.Empty(value) {
			return
		}
		name := lua.LVAsString(key)
		if failed = t.count(name); failed == nil {
			result[name], failed = t.back(value, fields[name], depth)
		}
	})
	return result, failed
}

func (t *Values) list(table *lua.LTable, reference any, depth int) (any, error) {
	entries, _ := reference.([]any)
	result := make([]any, 0, table.Len())
	places := 0
	table.ForEach(func(_, _ lua.LValue) { places++ })
	for i := 1; i <= table.MaxN(); i++ {
		value := table.RawGetInt(i)
		if value == lua.LNil {
			continue
		}
		var entry any
		if i <= len(entries) {
			entry = entries[i-1]
		}
		element, err := t.back(value, entry, depth)
		if err != nil {
			return nil, err
		}
		result = append(result, element)
	}
	if len(result) != places {
		return nil, errors.New("it contains a table whose keys are no places of a list")
	}
	return result, nil
}

// Empty is true for a table without entries.
func (t *Values) Empty(value lua.LValue) bool {
	table, ok := value.(*lua.LTable)
	if !ok {
		return false
	}
	key, _ := table.Next(lua.LNil)
	return key == lua.LNil
}
