package server

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/term"

	"github.com/flagship-k8s/flagship/internal/tools/cli/settings"
)

// groupFlags adds flags to a command whose help has them by subject.
func groupFlags(c *cobra.Command, groups cliflag.NamedFlagSets) {
	for _, name := range groups.Order {
		groups.FlagSets[name].VisitAll(func(f *pflag.Flag) { settings.SetGroup(f, name) })
		c.Flags().AddFlagSet(groups.FlagSets[name])
	}
	c.SetUsageFunc(func(c *cobra.Command) error {
		out := c.OutOrStdout()
		width, _, err := term.TerminalSize(out)
		if err != nil {
			width = 0 // not a terminal: lines are as long as they are
		}
		fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
		cliflag.PrintSections(out, groups, width)
		return nil
	})
}
