package clusters

import (
	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

func newTaintCommand(s cli.Streams) *cobra.Command {
	var (
		hub       cli.HubAccess
		overwrite bool
	)
	c := &cobra.Command{
		Use:   "taint [clusters] NAME KEY[=VALUE]:EFFECT... KEY[:EFFECT]-...",
		Short: "Add taints to a cluster, or remove them",
		Long: `Adds and removes taints. Effects are NoSchedule and PreferNoSchedule, which keep objects away whose policy does not
tolerate the taint, and NoExecute, which does the same, and evicts objects whose policy has spec.failover.cluster.`,
		Example: `  flagship taint member1 maintenance=today:NoSchedule
  flagship taint member1 maintenance-`,
		Args: cli.AtLeast(2, "the name of a cluster and at least one taint"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "cluster" || args[0] == "clusters" {
				args = args[1:]
			}
			if len(args) < 2 {
				return cli.UsageErrorf("taint needs the name of a cluster and at least one taint")
			}
			edits := make([]membership.TaintEdit, 0, len(args)-1)
			for _, text := range args[1:] {
				edit, err := membership.ParseTaint(text)
				if err != nil {
					return cli.UsageErrorf("%w", err)
				}
				edit.Overwrite = overwrite
				edits = append(edits, edit)
			}
			return editTaints(cmd, s, &hub, args[:1], edits, "tainted")
		},
	}
	hub.Flags(c)
	c.ValidArgsFunction = hub.ClusterNames
	c.Flags().BoolVar(&overwrite, "overwrite", false, "change the value of a taint that is there")
	return c
}
