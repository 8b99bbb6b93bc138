package sandbox

import (
	"regexp"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// stringFunctions are the string functions that make strings or match patterns: those of gopher-lua with a guard, and those that
// need the matcher of this package.
func stringFunctions(original func(library, function string) lua.LGFunction) Library {
	functions := Library{
		"find":   func(vm *lua.LState) int { return search(vm, true) },
		"format": stringFormat(original("string", "format")),
		"gmatch": stringGmatch,
		"gsub":   stringGsub,
		"match":  func(vm *lua.LState) int { return search(vm, false) },
		"rep":    stringRep,
	}
	for _, name := range []string{"char", "lower", "reverse", "sub", "upper"} {
		functions[name] = charged(original("string", name))
	}
	return functions
}

// charged guards a function whose result is about as long as its argument.
func charged(original lua.LGFunction) lua.LGFunction {
	return func(vm *lua.LState) int {
		results := original(vm)
		chargeString(vm, len(lua.LVAsString(vm.Get(-1))))
		return results
	}
}

func stringRep(vm *lua.LState) int {
	text, count := vm.CheckString(1), max(vm.CheckInt(2), 0)
	chargeString(vm, len(text)*min(count, maxString+1))
	if text == "" {
		count = 0
	}
	vm.Push(lua.LString(strings.Repeat(text, count)))
	return 1
}

// formatVerb is a verb that Lua has, with at most two digits of width and precision, or what else a percent sign begins.
var formatVerb = regexp.MustCompile(`%(?:[-+ #0]*[0-9]{0,2}(?:\.[0-9]{0,2})?([cdieEfgGoqsuxX%]))?`)

// stringFormat guards the function of gopher-lua, which leaves the work to package fmt: that would report a wrong verb, and an
// argument that is missing or of the wrong type, in its result.
func stringFormat(original lua.LGFunction) lua.LGFunction {
	return func(vm *lua.LState) int {
		format := vm.CheckString(1)
		argument, bound := 1, len(format)
		for _, match := range formatVerb.FindAllStringSubmatch(format, -1) {
			bound += 100
			switch match[1] {
			case "":
				vm.RaiseError("invalid format %q", match[0])
			case "%":
				continue
			}
			argument++
			switch match[1] {
			case "s":
				bound += len(lua.LVAsString(vm.CheckAny(argument)))
			case "q":
				bound += 4 * len(vm.CheckString(argument))
			default:
				vm.Replace(argument, vm.CheckNumber(argument))
			}
		}
		chargeString(vm, bound)
		vm.Replace(1, lua.LString(formatVerb.ReplaceAllStringFunc(format, func(verb string) string {
			if strings.HasSuffix(verb, "u") {
				return verb[:len(verb)-1] + "d"
			}
			return verb
		})))
		return original(vm)
	}
}

// position turns a place counted from the end into one from the start.
func position(place, length int) int {
	if place < 0 {
		return length + place + 1
	}
	return place
}

// search is find, with the place of the match, and match, without.
func search(vm *lua.LState, find bool) int {
	text, pattern := vm.CheckString(1), vm.CheckString(2)
	start := max(position(vm.OptInt(3, 1), len(text)), 1) - 1
	if start > len(text) {
		vm.Push(lua.LNil)
		return 1
	}
	if find && (lua.LVAsBool(vm.Get(4)) || !strings.ContainsAny(pattern, "^$*+?.([%-")) {
		Charge(vm, (len(text)+len(pattern))/stringStep)
		at := strings.Index(text[start:], pattern)
		if at < 0 {
			vm.Push(lua.LNil)
			return 1
		}
		vm.Push(lua.LNumber(start + at + 1))
		vm.Push(lua.LNumber(start + at + len(pattern)))
		return 2
	}
	m := newMatcher(vm, text, pattern)
	begin, end := m.next(start)
	switch {
	case begin < 0:
		vm.Push(lua.LNil)
		return 1
	case find:
		vm.Push(lua.LNumber(begin + 1))
		vm.Push(lua.LNumber(end))
		return 2 + m.push(begin, end, false)
	default:
		return m.push(begin, end, true)
	}
}

func stringGmatch(vm *lua.LState) int {
	m := &matcher{vm: vm, text: vm.CheckString(1), pattern: vm.CheckString(2)} // here ^ is no anchor
	at := 0
	vm.Push(vm.NewFunction(func(vm *lua.LState) int {
		start, end := m.next(at)
		if start < 0 {
			at = len(m.text) + 1
			return 0
		}
		at = max(end, start+1)
		return m.push(start, end, true)
	}))
	return 1
}

func stringGsub(vm *lua.LState) int {
	m := newMatcher(vm, vm.CheckString(1), vm.CheckString(2))
	replacement, limit := vm.Get(3), vm.OptInt(4, len(m.text)+1)
	var result strings.Builder
	count, at := 0, 0
	for count < limit && at <= len(m.text) && (at == 0 || !m.anchored) {
		start, end := m.next(at)
		if start < 0 {
			break
		}
		count++
		write(vm, &result, m.text[at:start])
		write(vm, &result, replace(vm, m, replacement, start, end))
		if at = end; end == start {
			if at++; start < len(m.text) {
				result.WriteByte(m.text[start])
			}
		}
	}
	write(vm, &result, m.text[min(at, len(m.text)):])
	vm.Push(lua.LString(result.String()))
	vm.Push(lua.LNumber(count))
	return 2
}

// write appends a piece to a result, if that does not get too long.
func write(vm *lua.LState, result *strings.Builder, piece string) {
	if result.Len()+len(piece) > maxString {
		chargeString(vm, maxString+1)
	}
	chargeString(vm, len(piece))
	result.WriteString(piece)
}

// replace is what replaces a match from s to end.
func replace(vm *lua.LState, m *matcher, by lua.LValue, s, end int) string {
	var value lua.LValue
	switch by := by.(type) {
	case lua.LString, lua.LNumber:
		return expanded(vm, m, lua.LVAsString(by), s, end)
	case *lua.LTable:
		value = by.RawGet(m.value(0, s, end))
	case *lua.LFunction:
		vm.Push(by)
		vm.Call(m.push(s, end, true), 1)
		value = vm.Get(-1)
		vm.Pop(1)
	default:
		vm.ArgError(3, "string, table or function expected")
	}
	switch value.Type() {
	case lua.LTString, lua.LTNumber:
		return lua.LVAsString(value)
	case lua.LTNil:
		return m.text[s:end]
	}
	if value == lua.LFalse {
		return m.text[s:end]
	}
	vm.RaiseError("invalid replacement value (a %s)", value.Type())
	return ""
}

// expanded puts captures in the place of %0 to %9.
func expanded(vm *lua.LState, m *matcher, by string, s, end int) string {
	var result strings.Builder
	for i := 0; i < len(by); i++ {
		if by[i] != '%' || i+1 == len(by) {
			result.WriteByte(by[i])
			continue
		}
		i++
		switch c := by[i]; {
		case c == '0':
			write(vm, &result, m.text[s:end])
		case c > '0' && c <= '9':
			write(vm, &result, lua.LVAsString(m.value(int(c-'1'), s, end)))
		default:
			result.WriteByte(c)
		}
	}
	Charge(vm, 1+len(by)/stringStep)
	return result.String()
}
