package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestExitCodes: scripts distinguish a command that failed from one that was misused.
func TestExitCodes(t *testing.T) {
	build := func(s Streams) *cobra.Command {
		var output Output
		list := &cobra.Command{Use: "list NAME", Args: Exactly(1, "the name of a cluster"), RunE: func(_ *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			if args[0] == "absent" {
				return errors.New("there is no cluster absent")
			}
			return output.Print(s, map[string]string{"name": args[0]}, "NAME LABELS", [][]string{{args[0], OrNone("")}})
		}}
		output.Flags(list)
		return Root(s, &cobra.Command{Use: "flagship"}, []*cobra.Command{list})
	}
	tests := map[string]struct {
		args     string
		code     int
		out, err string
	}{
		"Table":       {"list m1", 0, "NAME   LABELS\nm1     -\n", ""},
		"JSON":        {"list m1 -o json", 0, "{\n  \"name\": \"m1\"\n}\n", ""},
		"YAML":        {"list m1 -o yaml", 0, "name: m1\n", ""},
		"Failed":      {"list absent", 1, "", "error: there is no cluster absent\n"},
		"NoArgument":  {"list", 2, "", "list needs the name of a cluster"},
		"UnknownFlag": {"list m1 --wide", 2, "", "run 'flagship list --help' for the flags"},
		"Output":      {"list m1 -o xml", 2, "", `--output "xml" is none of table, json, yaml`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out, err bytes.Buffer
			code := Run(build, strings.Fields(tc.args), Streams{In: strings.NewReader(""), Out: &out, Err: &err})
			if code != tc.code || out.String() != tc.out || !strings.Contains(err.String(), tc.err) || (tc.err == "") != (err.Len() == 0) {
				t.Errorf("code %d, output %q, errors %q; want %d, %q and %q", code, &out, &err, tc.code, tc.out, tc.err)
			}
		})
	}
}
