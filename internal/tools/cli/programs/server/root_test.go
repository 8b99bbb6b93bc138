package server

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// TestHelpIsGrouped: the help of the two commands with settings has the flags in the sections of the generated reference.
func TestHelpIsGrouped(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for command, args := range map[string][]string{"server": {"server", "--help"}, "agent": {"agent", "--help"}} {
		t.Run(command, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := cli.Run(Root, args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}); code != 0 {
				t.Fatalf("code %d: %s", code, &errs)
			}
			_, section, found := strings.Cut(string(page), "\n## flagship "+command+"\n")
			section, _, _ = strings.Cut(section, "\n## ")
			want := byGroup(section, regexp.MustCompile(`^### (\w+)$`), regexp.MustCompile("^\\| `--([a-z0-9-]+)`"))
			got := byGroup(out.String(), regexp.MustCompile(`^(\w+) flags:$`), regexp.MustCompile(`^ +(?:-\w, )?--([a-z0-9-]+)`))
			if !found || len(want) < 20 {
				t.Fatalf("read only %v of the reference", want)
			}
			want = append(want, "general: config") // where the settings of the reference come from
			slices.Sort(want)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("the help has\n%s\nand the reference\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// byGroup returns the flags of a text, each with the heading above it, such as "general: port".
func byGroup(text string, heading, flag *regexp.Regexp) (flags []string) {
	group := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := heading.FindStringSubmatch(line); m != nil {
			group = strings.ToLower(m[1])
		}
		if m := flag.FindStringSubmatch(line); m != nil {
			flags = append(flags, group+": "+m[1])
		}
	}
	return flags
}
