package declarative

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// plainFunctions are the functions of the standard libraries that need no guard:
// what they use is bounded by their arguments, and they reach nothing outside.
func plainFunctions() map[string][]string {
	return map[string][]string{
		"": {
			"assert", "error", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget", "select", "tonumber", "tostring",
			"type", "unpack", "xpcall",
		},
		"table": {"getn", "maxn", "remove", "sort"},
		"math": {
			"abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "deg", "exp", "floor", "fmod", "frexp", "huge",
			"ldexp", "log", "log10", "max", "min", "mod", "modf", "pi", "pow", "rad", "random", "sin", "sinh", "sqrt", "tan", "tanh",
		},
		"os":     {"clock", "difftime", "time"},
		"string": {"byte", "len"},
	}
}

// library is what every call finds behind its global environment, by library and
// name; the empty library holds the globals themselves.
type library map[string]*lua.LTable

// newLibrary opens the standard libraries in a virtual machine and picks what
// scripts may have of them.
func (v *machine) newLibrary() library {
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString, lua.OpenMath, lua.OpenOs} {
		v.vm.Push(v.vm.NewFunction(open))
		v.vm.Call(0, 0)
	}
	result := library{}
	for name, functions := range plainFunctions() {
		source := v.vm.G.Global
		if name != "" {
			source = v.vm.GetGlobal(name).(*lua.LTable)
		}
		result[name] = v.vm.NewTable()
		for _, function := range functions {
			result[name].RawSetString(function, source.RawGetString(function))
		}
	}
	date := v.vm.GetField(v.vm.GetGlobal("os"), "date").(*lua.LFunction)
	for name, functions := range map[string]map[string]lua.LGFunction{
		"":       v.globalFunctions(),
		"string": v.stringFunctions(),
		"table":  {"concat": v.tableConcat, "insert": v.tableInsert},
		"os":     {"date": v.date(date.GFunction)},
		"kube":   v.kubeFunctions(),
	} {
		if result[name] == nil {
			result[name] = v.vm.NewTable()
		}
		for function, implementation := range functions {
			result[name].RawSetString(function, v.vm.NewFunction(implementation))
		}
	}
	result[""].RawSetString("_VERSION", lua.LString(lua.LuaVersion))
	return result
}

// environment makes the globals of one call: empty tables with the library
// behind them, so that nothing a script writes outlives the call. The library
// itself is out of its reach, there being no getmetatable.
func (v *machine) environment() *lua.LTable {
	globals := v.vm.CreateTable(0, len(v.behind)+1)
	for name, meta := range v.behind {
		if name == "" {
			globals.Metatable = meta
			continue
		}
		table := v.vm.CreateTable(0, 0)
		table.Metatable = meta
		globals.RawSetString(name, table)
	}
	globals.RawSetString("_G", globals)
	return globals
}

// metatables makes the metatables that lead from a call's tables to the library.
func (v *machine) metatables(l library) map[string]*lua.LTable {
	result := map[string]*lua.LTable{}
	for name, table := range l {
		result[name] = v.vm.NewTable()
		result[name].RawSetString("__index", table)
	}
	return result
}

// globalFunctions are what the rewriter calls, require, which finds the libraries
// under their names, and print, which has nowhere to go.
func (v *machine) globalFunctions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		concatFunction: v.concat,
		fillFunction:   v.fill,
		keyFunction:    v.key,
		"require":      v.require,
		"print":        func(*lua.LState) int { return 0 },
	}
}

func (v *machine) require(vm *lua.LState) int {
	name := vm.CheckString(1)
	library, ok := v.globals.RawGetString(name).(*lua.LTable)
	if !ok || v.behind[name] == nil {
		vm.RaiseError("there is no module %q here", name)
	}
	vm.Push(library)
	return 1
}

func (v *machine) concat(vm *lua.LState) int {
	total := 0
	for i := 1; i <= vm.GetTop(); i++ {
		switch operand := vm.Get(i).(type) {
		case lua.LString:
			total += len(operand)
		case lua.LNumber:
			total += 32
		default:
			vm.RaiseError("attempt to concatenate a %s value", operand.Type())
		}
	}
	v.allow(total)
	text := make([]byte, 0, total)
	for i := 1; i <= vm.GetTop(); i++ {
		text = append(text, lua.LVAsString(vm.Get(i))...)
	}
	vm.Push(lua.LString(text))
	return 1
}

// fill appends the values behind the first two arguments to a table, from the
// place that the second one gives.
func (v *machine) fill(vm *lua.LState) int {
	table, first := vm.CheckTable(1), vm.CheckInt(2)
	v.meter.use(vm.GetTop())
	v.check()
	for i := 3; i <= vm.GetTop(); i++ {
		if value := vm.Get(i); value != lua.LNil {
			table.RawSetInt(first+i-3, value)
		}
	}
	vm.Push(table)
	return 1
}

// key returns the second argument, after making the caller pay for the places
// that a list grows by if it is written there.
func (v *machine) key(vm *lua.LState) int {
	key := vm.Get(2)
	if number, ok := key.(lua.LNumber); ok {
		length := 0
		if table, ok := vm.Get(1).(*lua.LTable); ok {
			length = table.Len()
		}
		if gap := float64(number) - float64(length); gap > 1 {
			v.meter.use(int(min(gap, maxSteps)))
			v.check()
		}
	}
	vm.Push(key)
	return 1
}

// allow makes the call pay for a string of the length, and ends it if that is
// too long.
func (v *machine) allow(length int) {
	if length > maxString || length < 0 {
		v.vm.RaiseError("the script builds a string of more than %d bytes", maxString)
	}
	v.meter.use(length / stringStep)
	v.check()
}

// check ends the call if it has used up what it may.
func (v *machine) check() {
	if v.meter.err != nil {
		v.vm.RaiseError("%s", v.meter.err)
	}
}

func (v *machine) tableConcat(vm *lua.LState) int {
	table, separator := vm.CheckTable(1), vm.OptString(2, "")
	first, last := vm.OptInt(3, 1), vm.OptInt(4, table.Len())
	var result strings.Builder
	for i := first; i <= last; i++ {
		v.meter.use(1)
		value := table.RawGetInt(i)
		if value.Type() != lua.LTString && value.Type() != lua.LTNumber {
			vm.RaiseError("invalid value (%s) at index %d in table for concat", value.Type(), i)
		}
		v.write(&result, lua.LVAsString(value))
		if i < last {
			v.write(&result, separator)
		}
	}
	vm.Push(lua.LString(result.String()))
	return 1
}

func (v *machine) tableInsert(vm *lua.LState) int {
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
func (v *machine) date(original lua.LGFunction) lua.LGFunction {
	return func(vm *lua.LState) int {
		if len(vm.OptString(1, "")) > 256 {
			vm.ArgError(1, "format too long")
		}
		return original(vm)
	}
}
