package cli

import "github.com/spf13/cobra"

// Exactly checks the number of arguments; its error has what they are.
func Exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return UsageErrorf("%s needs %s\nusage: %s", cmd.Name(), what, cmd.UseLine())
		}
		return nil
	}
}

// AtLeast is like Exactly, for a list.
func AtLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return UsageErrorf("%s needs %s\nusage: %s", cmd.Name(), what, cmd.UseLine())
		}
		return nil
	}
}
