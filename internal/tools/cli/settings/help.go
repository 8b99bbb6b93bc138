package settings

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	cliflag "k8s.io/component-base/cli/flag"
)

// AddGroups adds flags to a command whose help and reference have them by subject.
func AddGroups(c *cobra.Command, groups cliflag.NamedFlagSets) {
	for _, name := range groups.Order {
		groups.FlagSets[name].VisitAll(func(f *pflag.Flag) { setGroup(f, name) })
		c.Flags().AddFlagSet(groups.FlagSets[name])
	}
	c.SetUsageFunc(func(c *cobra.Command) error {
		out := c.OutOrStdout()
		fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
		cliflag.PrintSections(out, groups, widthOf(out))
		return nil
	})
}

// widthOf is the number of columns of a terminal; 0 for what is none, where lines are as long as they are.
func widthOf(out io.Writer) int {
	file, is := out.(*os.File)
	if !is {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}
