package sandbox

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// unbounded are the functions of gopher-lua that need no guard: what they use is bounded by their arguments, and they reach
// nothing outside. The empty library holds the globals.
func unbounded() map[string]string {
	return map[string]string{
		"": "assert error ipairs next pairs pcall rawequal rawget select tonumber tostring type unpack xpcall",
		"math": "abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp log log10 max min mod modf pi pow rad random " +
			"sin sinh sqrt tan tanh",
		"os":     "clock difftime time",
		"string": "byte len",
		"table":  "getn maxn remove sort",
	}
}

// openLibraries makes the metatables that lead to the functions of gopher-lua that scripts may use, to those of this package and
// to others.
func openLibraries(vm *lua.LState, others map[string]Library) map[string]*lua.LTable {
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString, lua.OpenMath, lua.OpenOs} {
		vm.Push(vm.NewFunction(open))
		vm.Call(0, 0)
	}
	source := func(name string) *lua.LTable {
		if name == "" {
			return vm.G.Global
		}
		return vm.GetGlobal(name).(*lua.LTable)
	}
	result := map[string]*lua.LTable{}
	library := func(name string) *lua.LTable {
		if result[name] == nil {
			result[name] = vm.NewTable()
			result[name].RawSetString("__index", vm.NewTable())
		}
		return result[name].RawGetString("__index").(*lua.LTable)
	}
	for name, functions := range unbounded() {
		for function := range strings.FieldsSeq(functions) {
			library(name).RawSetString(function, source(name).RawGetString(function))
		}
	}
	add := func(name string, functions Library) {
		for function, implementation := range functions {
			library(name).RawSetString(function, vm.NewFunction(implementation))
		}
	}
	original := func(name, function string) lua.LGFunction {
		return source(name).RawGetString(function).(*lua.LFunction).GFunction
	}
	add("", Library{concatFunction: concat, fillFunction: fill, keyFunction: key, "print": func(*lua.LState) int { return 0 }})
	add("string", stringFunctions(original))
	add("table", Library{"concat": tableConcat, "insert": tableInsert})
	add("os", Library{"date": date(original("os", "date"))})
	for name, functions := range others {
		add(name, functions)
	}
	library("").RawSetString("_VERSION", lua.LString(lua.LuaVersion))
	return result
}

// concat is the operator ".." on all its operands.
func concat(vm *lua.LState) int {
	total := 0
	for i := 1; i <= vm.GetTop(); i++ {
		if !lua.LVCanConvToString(vm.Get(i)) {
			vm.RaiseError("attempt to concatenate a %s value", vm.Get(i).Type())
		}
		total += len(lua.LVAsString(vm.Get(i)))
	}
	chargeString(vm, total)
	text := make([]byte, 0, total)
	for i := 1; i <= vm.GetTop(); i++ {
		text = append(text, lua.LVAsString(vm.Get(i))...)
	}
	vm.Push(lua.LString(text))
	return 1
}

// fill appends the values behind the first two arguments to a table, from the place that the second one gives.
func fill(vm *lua.LState) int {
	table, first := vm.CheckTable(1), vm.CheckInt(2)
	Charge(vm, vm.GetTop())
	for i := 3; i <= vm.GetTop(); i++ {
		if value := vm.Get(i); value != lua.LNil {
			table.RawSetInt(first+i-3, value)
		}
	}
	vm.Push(table)
	return 1
}

// key returns the second argument, after charging for the places that a list grows by if it is written there.
func key(vm *lua.LState) int {
	key := vm.Get(2)
	if number, ok := key.(lua.LNumber); ok {
		length := 0
		if table, ok := vm.Get(1).(*lua.LTable); ok {
			length = table.Len()
		}
		if gap := float64(number) - float64(length); gap > 1 {
			Charge(vm, int(min(gap, maxSteps)))
		}
	}
	vm.Push(key)
	return 1
}

// tableConcat stands in for that of gopher-lua, which takes all elements on its bounded stack.
func tableConcat(vm *lua.LState) int {
	table, separator := vm.CheckTable(1), vm.OptString(2, "")
	first, last := vm.OptInt(3, 1), vm.OptInt(4, table.Len())
	var result strings.Builder
	for i := first; i <= last; i++ {
		Charge(vm, 1)
		value := table.RawGetInt(i)
		if !lua.LVCanConvToString(value) {
			vm.RaiseError("invalid value (%s) at index %d in table for concat", value.Type(), i)
		}
		write(vm, &result, lua.LVAsString(value))
		if i < last {
			write(vm, &result, separator)
		}
	}
	vm.Push(lua.LString(result.String()))
	return 1
}

// tableInsert stands in for that of gopher-lua, which fills a list up to the place.
func tableInsert(vm *lua.LState) int {
	table := vm.CheckTable(1)
	if vm.GetTop() < 3 {
		table.Append(vm.CheckAny(2))
		return 0
	}
	place := vm.CheckInt(2)
	if place < 1 || place > table.Len()+1 {
		vm.ArgError(2, "position out of bounds")
	}
	table.Insert(place, vm.CheckAny(3))
	return 0
}

// date bounds the format of os.date, since what a verb becomes is longer.
func date(original lua.LGFunction) lua.LGFunction {
	return func(vm *lua.LState) int {
		if len(vm.OptString(1, "")) > 256 {
			vm.ArgError(1, "format too long")
		}
		return original(vm)
	}
}
