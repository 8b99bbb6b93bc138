package cli

import (
	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/knowledge/version"
)

// newVersionCommand prints what was built.
func newVersionCommand(s Streams) *cobra.Command {
	var out Output
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, of the Kubernetes inside and of Go",
		Example: `  flagship version
  flagship version -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			info := version.Get()
			return out.Print(s, info, "VERSION COMMIT KUBERNETES GO PLATFORM",
				[][]string{{info.Version, info.Commit[:min(12, len(info.Commit))], info.Kubernetes, info.Go, info.Platform}})
		},
	}
	out.Flags(c)
	return c
}
