package declarative

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	lua "github.com/yuin/gopher-lua"
)

// What one result may be like.
const (
	maxDepth  = 64
	maxValues = 200_000
)

// translation turns the values of objects into those of Lua and back, for one
// call.
type translation struct {
	vm *lua.LState
	// lists remembers which tables were lists: one that is empty does not show it.
	lists  map[*lua.LTable]bool
	values int
	// compact leaves empty tables out. A value that will be decoded into a Go
	// type needs that: nothing tells whether an empty table is a list.
	compact bool
}

func newTranslation(vm *lua.LState) *translation {
	return &translation{vm: vm, lists: map[*lua.LTable]bool{}}
}

// value turns a value of an object into one of Lua.
func (t *translation) value(value any) lua.LValue {
	switch v := value.(type) {
	case nil:
		return lua.LNil
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
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
			table.RawSetString(key, t.value(entry))
		}
		return table
	case []any:
		table := t.vm.CreateTable(len(v), 0)
		t.lists[table] = true
		for _, entry := range v {
			table.Append(t.value(entry))
		}
		return table
	default:
		return lua.LString(fmt.Sprint(v))
	}
}

// result turns a value of Lua into one of an object. The reference is what the
// object has, or had, in its place.
func (t *translation) result(value lua.LValue, reference any) (any, error) {
	t.values, t.compact = 0, false
	return t.back(value, reference, 0)
}

// decode turns a value of Lua into a Go value of a type with JSON tags.
func (t *translation) decode(value lua.LValue, into any) error {
	t.values, t.compact = 0, true
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

func (t *translation) back(value lua.LValue, reference any, depth int) (any, error) {
	if t.values++; t.values > maxValues {
		return nil, fmt.Errorf("it has more than %d values", maxValues)
	}
	switch v := value.(type) {
	case *lua.LNilType:
		return nil, nil
	case lua.LBool:
		return bool(v), nil
	case lua.LString:
		return string(v), nil
	case lua.LNumber:
		return number(float64(v))
	case *lua.LTable:
		if depth == maxDepth {
			return nil, fmt.Errorf("it is nested more than %d tables deep", maxDepth)
		}
		return t.table(v, reference, depth+1)
	default:
		return nil, fmt.Errorf("it contains a %s", v.Type())
	}
}

// number is an integer wherever it can be.
func number(n float64) (any, error) {
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return nil, errors.New("it contains a number that is none")
	case n == math.Trunc(n) && math.Abs(n) < 1<<53:
		return int64(n), nil
	default:
		return n, nil
	}
}

func (t *translation) table(table *lua.LTable, reference any, depth int) (any, error) {
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

func (t *translation) object(table *lua.LTable, reference any, depth int) (any, error) {
	fields, _ := reference.(map[string]any)
	result := map[string]any{}
	var failed error
	table.ForEach(func(key, value lua.LValue) {
		if failed != nil {
			return
		}
		if t.compact && t.empty(value) {
			return
		}
		name := lua.LVAsString(key)
		result[name], failed = t.back(value, fields[name], depth)
	})
	return result, failed
}

func (t *translation) list(table *lua.LTable, reference any, depth int) (any, error) {
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

func (t *translation) empty(value lua.LValue) bool {
	table, ok := value.(*lua.LTable)
	if !ok {
		return false
	}
	key, _ := table.Next(lua.LNil)
	return key == lua.LNil
}
