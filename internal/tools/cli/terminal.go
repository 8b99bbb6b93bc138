package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// terminal writes text so that it controls no terminal: members and tenants wrote parts of it. Everything that a command prints passes here,
// whatever the format, also into files and pipes, since these are shown on terminals later.
//
// What is not printable is written as in JSON, so that JSON stays what it is: control characters but for line feed and tab, marks of the
// direction of writing, characters without width. A byte that is no UTF-8 is written as \x9b, since some terminals take it for a control character.
type terminal struct {
	mu sync.Mutex
	to io.Writer
	// begun is the first part of a character whose rest is in the next write.
	begun []byte
}

// Write implements io.Writer.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := append(t.begun, p...)
	whole := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if at := len(text) - i; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	t.begun = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(t.to, escaped(string(text[:whole]), "\n\t")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end writes the part of a character that had no rest.
func (t *terminal) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = io.WriteString(t.to, escaped(string(t.begun), "")) // the command has ended, with its own error if this fails
	t.begun = nil
}

// escaped writes what is not printable as in JSON, but for the characters that are allowed.
func escaped(text, allowed string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !isPlain(r, allowed) }) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch high, low := utf16.EncodeRune(r); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case isPlain(r, allowed):
			b.WriteRune(r)
		case high != unicode.ReplacementChar:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

func isPlain(r rune, allowed string) bool {
	return r != utf8.RuneError && unicode.IsGraphic(r) || strings.ContainsRune(allowed, r)
}

// Printable is a text for one line, or one cell of a table, in which a member begins neither: what is not printable is a question mark, line
// feeds and tabs included.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if isPlain(r, "") {
			return r
		}
		return '?'
	}, text)
}

// Raw are streams as the process has them, for commands that show what a process writes: it may control the terminal.
func (s Streams) Raw() Streams {
	for _, to := range []*io.Writer{&s.Out, &s.Err} {
		if t, ok := (*to).(*terminal); ok {
			*to = t.to
		}
	}
	return s
}
