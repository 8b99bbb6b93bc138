package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/features/enroll"
)

func newTaintCommand(s Streams) *cobra.Command {
	var (
		hub       hubAccess
		overwrite bool
	)
	c := &cobra.Command{
		Use:   "taint [clusters] NAME KEY[=VALUE]:EFFECT... KEY[:EFFECT]-...",
		Short: "Add taints to a cluster, or remove them",
		Long: `Adds and removes taints. Effects are NoSchedule and PreferNoSchedule, which keep objects away whose policy does not
tolerate the taint, and NoExecute, which does the same: nothing is evicted yet.`,
		Example: `  flagship taint member1 maintenance=today:NoSchedule
  flagship taint member1 maintenance-`,
		Args: atLeast(2, "the name of a cluster and at least one taint"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "cluster" || args[0] == "clusters" {
				args = args[1:]
			}
			if len(args) < 2 {
				return usageError{errors.New("taint needs the name of a cluster and at least one taint")}
			}
			edits := make([]enroll.TaintEdit, 0, len(args)-1)
			for _, text := range args[1:] {
				edit, err := enroll.ParseTaint(text)
				if err != nil {
					return usageError{err}
				}
				edit.Overwrite = overwrite
				edits = append(edits, edit)
			}
			return editTaints(cmd, s, &hub, args[:1], edits, "tainted")
		},
	}
	hub.flags(c)
	c.Flags().BoolVar(&overwrite, "overwrite", false, "change the value of a taint that is there")
	return c
}
