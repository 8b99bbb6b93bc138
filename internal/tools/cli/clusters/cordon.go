package clusters

import (
	"errors"
	"fmt"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

func newCordonCommand(s cli.Streams) *cobra.Command {
	return cordonCommand(s, false, &cobra.Command{
		Use:   "cordon NAME...",
		Short: "Keep new objects away from clusters",
		Long: `Marks clusters as unschedulable, with the taint cluster.karmada.io/unschedulable:NoSchedule. What is in them stays and is
kept up to date.`,
		Example: "  flagship cordon member1",
	})
}

func newUncordonCommand(s cli.Streams) *cobra.Command {
	return cordonCommand(s, true, &cobra.Command{
		Use:     "uncordon NAME...",
		Short:   "Let new objects into clusters again",
		Long:    "Ends what cordon began.",
		Example: "  flagship uncordon member1",
	})
}

func cordonCommand(s cli.Streams, remove bool, c *cobra.Command) *cobra.Command {
	var hub cli.HubAccess
	c.Args = cli.AtLeast(1, "the name of a cluster")
	c.RunE = func(cmd *cobra.Command, clusters []string) error {
		return editTaints(cmd, s, &hub, clusters, []membership.TaintEdit{membership.Cordon(remove)}, cmd.Name()+"ed")
	}
	c.ValidArgsFunction = hub.ClusterNames
	hub.Flags(c)
	return c
}

// editTaints changes the taints of every cluster named, whatever becomes of the others.
func editTaints(cmd *cobra.Command, s cli.Streams, hub *cli.HubAccess, clusters []string, edits []membership.TaintEdit, done string) error {
	cfg, err := hub.Config()
	if err != nil {
		return err
	}
	var faults []error
	for _, cluster := range clusters {
		changed, err := membership.EditTaints(cmd.Context(), cfg, cluster, edits)
		switch {
		case err != nil:
			faults = append(faults, err)
		case changed:
			fmt.Fprintf(s.Out, "cluster %s %s\n", cluster, done)
		default:
			fmt.Fprintf(s.Out, "cluster %s was %s already\n", cluster, done)
		}
	}
	return errors.Join(faults...)
}
