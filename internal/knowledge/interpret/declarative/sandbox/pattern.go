package sandbox

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// maxCaptures is how many captures a pattern may have.
const maxCaptures = 32

// States of a capture that is not text.
const (
	openCapture     = -1
	positionCapture = -2
)

// maxPatternDepth bounds how deep match calls itself: once for each repetition and capture of a pattern.
const maxPatternDepth = 1000

// matcher matches Lua patterns against a text. It charges for every comparison, since a pattern may take hours of backtracking.
// The matcher of gopher-lua cannot be interrupted, and regexp has no %b, %f and %1.
type matcher struct {
	vm       *lua.LState
	text     string
	pattern  string
	anchored bool
	depth    int
	captures []capture
}

func newMatcher(vm *lua.LState, text, pattern string) *matcher {
	rest, anchored := strings.CutPrefix(pattern, "^")
	return &matcher{vm: vm, text: text, pattern: rest, anchored: anchored}
}

// next finds the first match from a place on; start is -1 without one.
func (m *matcher) next(from int) (start, end int) {
	for s := from; s <= len(m.text) && (s == from || !m.anchored); s++ {
		m.captures = m.captures[:0]
		if end := m.match(s, 0); end >= 0 {
			return s, end
		}
	}
	return -1, -1
}

type capture struct{ start, length int }

// match tries the pattern from p against the text from s and returns where the match ends, or -1.
func (m *matcher) match(s, p int) int {
	if m.depth++; m.depth > maxPatternDepth {
		m.fail("the pattern is too complex")
	}
	defer func() { m.depth-- }()
	for {
		Charge(m.vm, 1)
		if p == len(m.pattern) {
			return s
		}
		switch {
		case m.pattern[p] == '(':
			return m.open(s, p)
		case m.pattern[p] == ')':
			return m.close(s, p)
		case m.pattern[p] == '$' && p+1 == len(m.pattern):
			if s == len(m.text) {
				return s
			}
			return -1
		case m.pattern[p] == '%' && p+1 < len(m.pattern):
			next, at, special := m.special(s, p)
			if special {
				if next < 0 {
					return -1
				}
				s, p = next, at
				continue
			}
		}
		end := m.itemEnd(p)
		if end < len(m.pattern) && strings.IndexByte("*+-?", m.pattern[end]) >= 0 {
			return m.repeat(s, p, end)
		}
		if !m.one(s, p, end) {
			return -1
		}
		s, p = s+1, end
	}
}

// special handles %b, %f and %1 to %9: where text and pattern go on, and whether it was one of these.
func (m *matcher) special(s, p int) (next, at int, special bool) {
	switch c := m.pattern[p+1]; {
	case c == 'b':
		return m.balance(s, p+2), p + 4, true
	case c == 'f':
		p += 2
		if p >= len(m.pattern) || m.pattern[p] != '[' {
			m.fail("missing [ after %%f in pattern")
		}
		end := m.itemEnd(p)
		var before, here byte
		if s > 0 {
			before = m.text[s-1]
		}
		if s < len(m.text) {
			here = m.text[s]
		}
		if m.set(before, p, end) || !m.set(here, p, end) {
			return -1, 0, true
		}
		return s, end, true
	case c >= '0' && c <= '9':
		return m.again(s, int(c-'1')), p + 2, true
	default:
		return 0, 0, false
	}
}

// repeat matches an item with a suffix, and the rest of the pattern behind it.
func (m *matcher) repeat(s, p, end int) int {
	switch m.pattern[end] {
	case '?':
		if m.one(s, p, end) {
			if result := m.match(s+1, end+1); result >= 0 {
				return result
			}
		}
		return m.match(s, end+1)
	case '-':
		for {
			if result := m.match(s, end+1); result >= 0 {
				return result
			}
			if !m.one(s, p, end) {
				return -1
			}
			s++
		}
	}
	count, least := 0, 0
	if m.pattern[end] == '+' {
		least = 1
	}
	for m.one(s+count, p, end) {
		count++
	}
	for ; count >= least; count-- {
		if result := m.match(s+count, end+1); result >= 0 {
			return result
		}
	}
	return -1
}

func (m *matcher) open(s, p int) int {
	if len(m.captures) == maxCaptures {
		m.fail("too many captures")
	}
	c := capture{start: s, length: openCapture}
	p++
	if p < len(m.pattern) && m.pattern[p] == ')' {
		c.length = positionCapture
		p++
	}
	level := len(m.captures)
	m.captures = append(m.captures, c)
	result := m.match(s, p)
	if result < 0 {
		m.captures = m.captures[:level]
	}
	return result
}

func (m *matcher) close(s, p int) int {
	for level := len(m.captures) - 1; level >= 0; level-- {
		if m.captures[level].length != openCapture {
			continue
		}
		m.captures[level].length = s - m.captures[level].start
		result := m.match(s, p+1)
		if result < 0 {
			m.captures[level].length = openCapture
		}
		return result
	}
	m.fail("invalid pattern capture")
	return -1
}

// again matches the text of an earlier capture.
func (m *matcher) again(s, level int) int {
	if level < 0 || level >= len(m.captures) || m.captures[level].length < 0 {
		m.fail("invalid capture index")
	}
	c := m.captures[level]
	Charge(m.vm, c.length/stringStep)
	if strings.HasPrefix(m.text[s:], m.text[c.start:c.start+c.length]) {
		return s + c.length
	}
	return -1
}

// balance matches from an opening character to the closing one of its own.
func (m *matcher) balance(s, p int) int {
	if p+1 >= len(m.pattern) {
		m.fail("unbalanced pattern")
	}
	opening, closing := m.pattern[p], m.pattern[p+1]
	if s >= len(m.text) || m.text[s] != opening {
		return -1
	}
	depth := 1
	for s++; s < len(m.text); s++ {
		Charge(m.vm, 1)
		switch m.text[s] {
		case closing:
			if depth--; depth == 0 {
				return s + 1
			}
		case opening:
			depth++
		}
	}
	return -1
}

// itemEnd returns where the single-character item at p ends.
func (m *matcher) itemEnd(p int) int {
	c := m.pattern[p]
	p++
	switch c {
	case '%':
		if p == len(m.pattern) {
			m.fail("malformed pattern (ends with %%)")
		}
		return p + 1
	case '[':
		if p < len(m.pattern) && m.pattern[p] == '^' {
			p++
		}
		for first := true; ; first = false {
			if p >= len(m.pattern) {
				m.fail("malformed pattern (missing ])")
			}
			switch c := m.pattern[p]; {
			case c == ']' && !first:
				return p + 1
			case c == '%':
				p++
			}
			p++
		}
	}
	return p
}

// one is true if the character at s is one of the item from p to end.
func (m *matcher) one(s, p, end int) bool {
	Charge(m.vm, 1)
	if s >= len(m.text) {
		return false
	}
	switch m.pattern[p] {
	case '.':
		return true
	case '%':
		return inClass(m.text[s], m.pattern[p+1])
	case '[':
		return m.set(m.text[s], p, end)
	default:
		return m.pattern[p] == m.text[s]
	}
}

// set is true if c is in the set from the bracket at p to behind the one at the end.
func (m *matcher) set(c byte, p, end int) bool {
	Charge(m.vm, 1+(end-p)/8)
	p++
	end--
	wanted := true
	if m.pattern[p] == '^' {
		wanted = false
		p++
	}
	for p < end {
		switch {
		case m.pattern[p] == '%' && p+1 < end:
			if inClass(c, m.pattern[p+1]) {
				return wanted
			}
			p += 2
		case p+2 < end && m.pattern[p+1] == '-':
			if m.pattern[p] <= c && c <= m.pattern[p+2] {
				return wanted
			}
			p += 3
		default:
			if m.pattern[p] == c {
				return wanted
			}
			p++
		}
	}
	return !wanted
}

// inClass is true if c is in the class of a letter such as d or D; any other character stands for itself.
func inClass(c, class byte) bool {
	letter := func(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	var in bool
	switch class | 0x20 {
	case 'a':
		in = letter(c)
	case 'd':
		in = digit(c)
	case 'l':
		in = c >= 'a' && c <= 'z'
	case 'u':
		in = c >= 'A' && c <= 'Z'
	case 's':
		in = c == ' ' || c >= '\t' && c <= '\r'
	case 'w':
		in = letter(c) || digit(c)
	case 'x':
		in = digit(c) || c|0x20 >= 'a' && c|0x20 <= 'f'
	case 'p':
		in = c > ' ' && c < 0x7f && !letter(c) && !digit(c)
	case 'c':
		in = c < ' ' || c == 0x7f
	case 'z':
		in = c == 0
	default:
		return c == class
	}
	return in == (class >= 'a')
}

func (m *matcher) fail(format string, args ...any) {
	m.vm.RaiseError(format, args...)
}

// value returns a capture; without captures the whole match is the first one.
func (m *matcher) value(i, start, end int) lua.LValue {
	if i >= len(m.captures) {
		if i > 0 {
			m.fail("invalid capture index")
		}
		return m.piece(start, end)
	}
	c := m.captures[i]
	switch c.length {
	case openCapture:
		m.fail("unfinished capture")
	case positionCapture:
		return lua.LNumber(c.start + 1)
	}
	return m.piece(c.start, c.start+c.length)
}

func (m *matcher) piece(start, end int) lua.LValue {
	Charge(m.vm, 1+(end-start)/stringStep)
	return lua.LString(m.text[start:end])
}

// push puts all captures on the stack, or the whole match if there are none and it is requested, and returns how many values that
// were.
func (m *matcher) push(start, end int, whole bool) int {
	count := len(m.captures)
	if count == 0 && whole {
		count = 1
	}
	for i := range count {
		m.vm.Push(m.value(i, start, end))
	}
	return count
}
