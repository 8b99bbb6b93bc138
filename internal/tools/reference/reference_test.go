package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestFlagsOfClustersAreCompleted: every flag that is the name of a cluster completes.
func TestFlagsOfClustersAreCompleted(t *testing.T) {
	found := 0
	var check func(*cobra.Command)
	check = func(c *cobra.Command) {
		for _, name := range []string{"cluster", "clusters"} {
			if f := c.LocalNonPersistentFlags().Lookup(name); f == nil || f.Value.Type() == "int" { // a number of clusters
				continue
			}
			found++
			if _, ok := c.GetFlagCompletionFunc(name); !ok {
				t.Errorf("%s --%s completes nothing: call CompleteFlag", c.CommandPath(), name)
			}
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	for _, program := range programs() {
		check(program)
	}
	if found < 10 {
		t.Errorf("only %d flags were found", found)
	}
}

// TestFilesOfARelease: each program has a manual page for each command, and a file for each shell, with the same bytes in every build.
func TestFilesOfARelease(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	for name, tc := range map[string]struct {
		make  func() (map[string][]byte, error)
		files []string
		text  string
	}{
		"Manual":      {manual, []string{"flagship/flagship.1", "flagship/flagship-backup-create.1", "flagship-server/flagship-server-server.1", "flagship-agent/flagship-agent-agent.1"}, ".TH"},
		"Completions": {completions, []string{"bash/flagship", "zsh/_flagship-server", "fish/flagship-agent.fish"}, "__complete"},
	} {
		t.Run(name, func(t *testing.T) {
			first, err := tc.make()
			if err != nil {
				t.Fatal(err)
			}
			again, err := tc.make()
			if err != nil || !maps.EqualFunc(first, again, bytes.Equal) {
				t.Errorf("two builds differ: %v", err)
			}
			for _, file := range tc.files {
				if !strings.Contains(string(first[file]), tc.text) {
					t.Errorf("%s lacks %q; there are %v", file, tc.text, slices.Sorted(maps.Keys(first)))
				}
			}
		})
	}
}
