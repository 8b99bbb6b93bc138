package clusters

import (
	"fmt"
	"time"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

func newReleaseBrakeCommand(s cli.Streams) *cobra.Command {
	var (
		hub  cli.HubAccess
		all  bool
		keep bool
		pass time.Duration
	)
	c := &cobra.Command{
		Use:   "release-brake NAME...",
		Short: "Let removals go on that wait because there were too many at once",
		Long: `When more than a share of a cluster's objects is to be removed or scaled down within minutes, the rest waits, and the
Cluster has the condition BrakeEngaged (see --brake-share of the server). This command decides what becomes of it.

Without --keep-objects, removals and shrinkages pass for the time of --for. With --keep-objects, what is to be removed now
stays in the cluster as it is instead: its Works go, 'flagship orphans' lists the objects, and a policy or template that is
made again takes them over without touching them.`,
		Example: `  flagship release-brake member1
  flagship release-brake --all --for 1h
  flagship release-brake member1 --keep-objects`,
		Args: func(_ *cobra.Command, args []string) error {
			if all != (len(args) == 0) {
				return cli.UsageErrorf("release-brake needs either the names of clusters or --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, clusters []string) error {
			if pass <= 0 || pass > brake.MaxRelease {
				return cli.UsageErrorf("--for must be more than 0 and at most %s", brake.MaxRelease)
			}
			cfg, err := hub.Config()
			if err != nil {
				return err
			}
			o := membership.ReleaseOptions{Clusters: clusters, Until: time.Now().Add(pass)}
			if keep {
				o.KeepBefore = time.Now()
			}
			released, err := membership.ReleaseBrake(cmd.Context(), cfg, o)
			for _, cluster := range released {
				fmt.Fprintf(s.Out, "the brake of cluster %s is released\n", cluster)
			}
			return err
		},
	}
	hub.Flags(c)
	c.ValidArgsFunction = hub.ClusterNames
	c.Flags().BoolVar(&all, "all", false, "every cluster whose brake is engaged")
	c.Flags().BoolVar(&keep, "keep-objects", false, "leave the objects that wait for their removal in the cluster")
	c.Flags().DurationVar(&pass, "for", brake.DefaultWindow, "how long removals and shrinkages pass")
	return c
}
