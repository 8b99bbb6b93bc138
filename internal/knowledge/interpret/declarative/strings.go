package declarative

import (
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// stringFunctions are the string functions that make strings or match patterns.
func (v *machine) stringFunctions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"char":    v.stringChar,
		"find":    func(vm *lua.LState) int { return v.search(vm, true) },
		"format":  v.stringFormat,
		"gmatch":  v.stringGmatch,
		"gsub":    v.stringGsub,
		"lower":   v.mapped(strings.ToLower),
		"match":   func(vm *lua.LState) int { return v.search(vm, false) },
		"rep":     v.stringRep,
		"reverse": v.mapped(reversed),
		"sub":     v.stringSub,
		"upper":   v.mapped(strings.ToUpper),
	}
}

func reversed(text string) string {
	bytes := []byte(text)
	for i, j := 0, len(bytes)-1; i < j; i, j = i+1, j-1 {
		bytes[i], bytes[j] = bytes[j], bytes[i]
	}
	return string(bytes)
}

func (v *machine) mapped(function func(string) string) lua.LGFunction {
	return func(vm *lua.LState) int {
		text := vm.CheckString(1)
		v.allow(len(text))
		vm.Push(lua.LString(function(text)))
		return 1
	}
}

func (v *machine) stringChar(vm *lua.LState) int {
	text := make([]byte, vm.GetTop())
	v.allow(len(text))
	for i := range text {
		text[i] = byte(vm.CheckInt(i + 1))
	}
	vm.Push(lua.LString(text))
	return 1
}

func (v *machine) stringRep(vm *lua.LState) int {
	text, count := vm.CheckString(1), vm.CheckInt(2)
	if count <= 0 || text == "" {
		vm.Push(lua.LString(""))
		return 1
	}
	if count > maxString {
		count = maxString + 1
	}
	v.allow(len(text) * count)
	vm.Push(lua.LString(strings.Repeat(text, count)))
	return 1
}

func (v *machine) stringSub(vm *lua.LState) int {
	text := vm.CheckString(1)
	start, end := position(vm.CheckInt(2), len(text)), position(vm.OptInt(3, -1), len(text))
	start, end = max(start, 1), min(end, len(text))
	if start > end {
		vm.Push(lua.LString(""))
		return 1
	}
	v.allow(end - start + 1)
	vm.Push(lua.LString(text[start-1 : end]))
	return 1
}

// position turns a place counted from the end into one from the start.
func position(place, length int) int {
	if place < 0 {
		return length + place + 1
	}
	return place
}

// stringFormat leaves the work to the verbs of fmt, which are those of C for the
// ones Lua has.
func (v *machine) stringFormat(vm *lua.LState) int {
	format := vm.CheckString(1)
	v.meter.use(len(format) / stringStep)
	var result strings.Builder
	argument := 1
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			result.WriteByte(format[i])
			continue
		}
		if i+1 < len(format) && format[i+1] == '%' {
			result.WriteByte('%')
			i++
			continue
		}
		end := i + 1
		for end < len(format) && strings.IndexByte("-+ #0123456789.", format[end]) >= 0 {
			end++
		}
		if end == len(format) || longNumber(format[i:end]) {
			vm.RaiseError("invalid format %q", format[i:])
		}
		argument++
		v.write(&result, v.formatted(format[i:end], format[end], argument))
		i = end
	}
	vm.Push(lua.LString(result.String()))
	return 1
}

// longNumber tells whether a width or precision has more than the two digits
// that Lua allows.
func longNumber(flags string) bool {
	digits := 0
	for i := range len(flags) {
		if flags[i] < '0' || flags[i] > '9' {
			digits = 0
			continue
		}
		if digits++; digits > 2 {
			return true
		}
	}
	return false
}

func (v *machine) formatted(flags string, verb byte, argument int) string {
	switch verb {
	case 'd', 'i':
		return fmt.Sprintf(flags+"d", int64(v.vm.CheckNumber(argument)))
	case 'u':
		return fmt.Sprintf(flags+"d", uint64(v.vm.CheckNumber(argument)))
	case 'c':
		return string([]byte{byte(v.vm.CheckInt(argument))})
	case 'o', 'x', 'X':
		return fmt.Sprintf(flags+string(verb), int64(v.vm.CheckNumber(argument)))
	case 'e', 'E', 'f', 'g', 'G':
		return fmt.Sprintf(flags+string(verb), float64(v.vm.CheckNumber(argument)))
	case 'q':
		text := v.vm.CheckString(argument)
		v.allow(2 * len(text))
		return quoted(text)
	case 's':
		text := v.vm.CheckAny(argument).String()
		v.allow(len(text))
		return fmt.Sprintf(flags+"s", text)
	default:
		v.vm.RaiseError("invalid format %q", flags+string(verb))
		return ""
	}
}

// search is find, with the place of the match, and match, without.
func (v *machine) search(vm *lua.LState, find bool) int {
	text, pattern := vm.CheckString(1), vm.CheckString(2)
	start := max(position(vm.OptInt(3, 1), len(text)), 1) - 1
	if start > len(text) {
		vm.Push(lua.LNil)
		return 1
	}
	if find && (lua.LVAsBool(vm.Get(4)) || !strings.ContainsAny(pattern, "^$*+?.([%-")) {
		v.meter.use((len(text) + len(pattern)) / stringStep)
		at := strings.Index(text[start:], pattern)
		if at < 0 {
			vm.Push(lua.LNil)
			return 1
		}
		vm.Push(lua.LNumber(start + at + 1))
		vm.Push(lua.LNumber(start + at + len(pattern)))
		return 2
	}
	anchored := strings.HasPrefix(pattern, "^")
	m := v.matcher(text, strings.TrimPrefix(pattern, "^"))
	for s := start; s <= len(text); s++ {
		m.captures = m.captures[:0]
		if end := m.match(s, 0); end >= 0 {
			if !find {
				return m.push(s, end, true)
			}
			vm.Push(lua.LNumber(s + 1))
			vm.Push(lua.LNumber(end))
			return 2 + m.push(s, end, false)
		}
		if anchored {
			break
		}
	}
	vm.Push(lua.LNil)
	return 1
}

func (v *machine) matcher(text, pattern string) *matcher {
	return &matcher{vm: v.vm, meter: v.meter, text: text, pattern: pattern}
}

func (v *machine) stringGmatch(vm *lua.LState) int {
	m := v.matcher(vm.CheckString(1), vm.CheckString(2))
	next := 0
	vm.Push(vm.NewFunction(func(vm *lua.LState) int {
		for s := next; s <= len(m.text); s++ {
			m.captures = m.captures[:0]
			end := m.match(s, 0)
			if end < 0 {
				continue
			}
			next = end
			if end == s {
				next++
			}
			return m.push(s, end, true)
		}
		next = len(m.text) + 1
		return 0
	}))
	return 1
}

func (v *machine) stringGsub(vm *lua.LState) int {
	text, pattern, replacement := vm.CheckString(1), vm.CheckString(2), vm.Get(3)
	limit := vm.OptInt(4, len(text)+1)
	anchored := strings.HasPrefix(pattern, "^")
	m := v.matcher(text, strings.TrimPrefix(pattern, "^"))
	var result strings.Builder
	count, at := 0, 0
	for count < limit {
		m.captures = m.captures[:0]
		end := m.match(at, 0)
		if end >= 0 {
			count++
			v.write(&result, v.replacement(m, replacement, at, end))
		}
		if end > at {
			at = end
		} else if at < len(text) {
			result.WriteByte(text[at])
			at++
		} else {
			break
		}
		if anchored {
			break
		}
	}
	v.write(&result, text[at:])
	vm.Push(lua.LString(result.String()))
	vm.Push(lua.LNumber(count))
	return 2
}

// write appends a piece to a result, if that does not get too long.
func (v *machine) write(result *strings.Builder, piece string) {
	if result.Len()+len(piece) > maxString {
		v.allow(maxString + 1)
	}
	v.allow(len(piece))
	result.WriteString(piece)
}

// replacement is what stands for a match from s to end.
func (v *machine) replacement(m *matcher, by lua.LValue, s, end int) string {
	var value lua.LValue
	switch by := by.(type) {
	case lua.LString, lua.LNumber:
		return v.expanded(m, lua.LVAsString(by), s, end)
	case *lua.LTable:
		value = by.RawGet(m.value(0, s, end))
	case *lua.LFunction:
		v.vm.Push(by)
		v.vm.Call(m.push(s, end, true), 1)
		value = v.vm.Get(-1)
		v.vm.Pop(1)
	default:
		v.vm.ArgError(3, "string, table or function expected")
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
	v.vm.RaiseError("invalid replacement value (a %s)", value.Type())
	return ""
}

// expanded puts captures in the place of %0 to %9.
func (v *machine) expanded(m *matcher, by string, s, end int) string {
	var result strings.Builder
	for i := 0; i < len(by); i++ {
		if by[i] != '%' || i+1 == len(by) {
			result.WriteByte(by[i])
			continue
		}
		i++
		switch c := by[i]; {
		case c == '0':
			v.write(&result, m.text[s:end])
		case c > '0' && c <= '9':
			v.write(&result, lua.LVAsString(m.value(int(c-'1'), s, end)))
		default:
			result.WriteByte(c)
		}
	}
	v.meter.use(1 + len(by)/stringStep)
	return result.String()
}

// quoted replaces what may not stand in a Lua string as it is.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", "\\\n", "\r", `\r`, "\x00", `\000`).Replace(text) + `"`
}
