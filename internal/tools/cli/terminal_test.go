package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

func TestNothingControlsTheTerminal(t *testing.T) {
	for name, tc := range map[string]struct{ text, lines, cell string }{
		"Plain":      {"web é 日本 🙂", "web é 日本 🙂", "web é 日本 🙂"},
		"Escape":     {"\x1b[2J", `\u001b[2J`, `?[2J`},
		"Lines":      {"a\n\tb\rc", "a\n\tb" + `\u000dc`, `a??b?c`},
		"C1":         {"\u009b2J", `\u009b2J`, `?2J`},
		"NoUTF8":     {"a\x9b2J", `a\x9b2J`, `a?2J`},
		"Direction":  {"a\u202egnp", `a\u202egnp`, `a?gnp`},
		"NoWidth":    {"a\u200b\ufeff", `a\u200b\ufeff`, `a??`},
		"Tag":        {"\U000e0001", `\udb40\udc01`, `?`},
		"Incomplete": {"a\xe2\x80", `a\xe2\x80`, `a??`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := written(t, tc.text, 1); got != tc.lines {
				t.Errorf("written is %q, want %q", got, tc.lines)
			}
			if got := Printable(tc.text); got != tc.cell {
				t.Errorf("a cell is %q, want %q", got, tc.cell)
			}
		})
	}
}

// written is what a terminal gets of a text that is written in parts of some bytes.
func written(t *testing.T, text string, part int) string {
	t.Helper()
	var out bytes.Buffer
	w := &terminal{to: &out}
	for rest := text; rest != ""; rest = rest[min(part, len(rest)):] {
		if n, err := w.Write([]byte(rest[:min(part, len(rest))])); err != nil || n != min(part, len(rest)) {
			t.Fatalf("writing: %d, %v", n, err)
		}
	}
	w.end()
	return out.String()
}

func FuzzTerminal(f *testing.F) {
	for _, text := range []string{"web", "\x1b]0;x\a", "\u202e", "\x9b", "\xf0\x9f", "a\tb\nc", `{"a":"\u001b"}`, "\U000e0001\U0001f642"} {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, part int) {
		out := written(t, text, max(part, 1))
		if whole := written(t, text, max(len(text), 1)); out != whole {
			t.Fatalf("in parts it is %q, as a whole %q", out, whole)
		}
		for i, r := range out {
			if r == utf8.RuneError && !strings.HasPrefix(out[i:], string(utf8.RuneError)) || !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
				t.Fatalf("%q is written for %q", out, text)
			}
		}
		if strings.ContainsAny(Printable(text), "\n\t") {
			t.Fatalf("a cell is %q", Printable(text))
		}
		// JSON stays what it is.
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var before, after string
		if err := json.Unmarshal(raw, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(written(t, string(raw), max(part, 1))), &after); err != nil || after != before {
			t.Fatalf("%q is %q after it was written: %v", before, after, err)
		}
	})
}

// TestEveryStreamIsATerminal: all that a command can write to is escaped, and errors are.
func TestEveryStreamIsATerminal(t *testing.T) {
	const evil = "a\x1b[2J\u202e"
	for name, run := range map[string]func(s Streams, c *cobra.Command) error{
		"Line":  func(s Streams, _ *cobra.Command) error { s.Line(evil); return nil },
		"Out":   func(s Streams, _ *cobra.Command) error { _, err := s.Out.Write([]byte(evil)); return err },
		"Err":   func(s Streams, _ *cobra.Command) error { _, err := s.Err.Write([]byte(evil)); return err },
		"Cobra": func(_ Streams, c *cobra.Command) error { c.Print(evil); c.PrintErr(evil); return nil },
		"Log":   func(s Streams, _ *cobra.Command) error { LogTo(s.Err); return nil },
		"Error": func(Streams, *cobra.Command) error { return UsageErrorf("%s", evil) },
		"Table": func(s Streams, _ *cobra.Command) error {
			return (&Output{format: "table"}).Print(s, nil, "NAME", [][]string{{evil}, {"web\nother   m2"}, {"a\tb"}})
		},
		"YAML": func(s Streams, _ *cobra.Command) error { return PrintAs(s, "yaml", map[string]string{evil: evil}, nil) },
		"JSON": func(s Streams, _ *cobra.Command) error { return PrintAs(s, "json", map[string]string{evil: evil}, nil) },
		"Text": func(s Streams, _ *cobra.Command) error { return PrintAs(s, "", nil, func() string { return evil }) },
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			Run(func(s Streams) *cobra.Command {
				c := &cobra.Command{Use: "evil"}
				c.RunE = func(c *cobra.Command, _ []string) error { return run(s, c) }
				return Root(s, &cobra.Command{Use: "flagship"}, []*cobra.Command{c})
			}, []string{"evil"}, Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
			text := out.String() + errs.String()
			if name != "Log" && text == "" || strings.ContainsAny(text, "\x1b\u202e") {
				t.Errorf("written is %q", text)
			}
			if name == "Table" && strings.Count(text, "\n") != 4 {
				t.Errorf("a cell began a line: %q", text)
			}
		})
	}
	s := Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}
	if wrapped := (Streams{Out: &terminal{to: s.Out}, Err: &terminal{to: s.Err}}); wrapped.Raw() != s || s.Raw() != s {
		t.Error("raw streams are others than those of the process")
	}
}
