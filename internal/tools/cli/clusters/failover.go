package clusters

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

func newFailoverCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "failover",
		Short: "See and decide what waits when objects leave clusters that failed",
		Long: `Objects whose policy has spec.failover.cluster leave clusters that failed. Where that may do harm they wait for a person: see
docs/failover.md. The commands that decide need the right to get and patch Clusters, which tenants do not have.`,
	}
	c.AddCommand(newFailoverStatusCommand(s), newFailoverReleaseCommand(s), newFailoverFenceCommand(s))
	return c
}

func newFailoverStatusCommand(s cli.Streams) *cobra.Command {
	var (
		hub cli.HubAccess
		out cli.Output
	)
	c := &cobra.Command{
		Use:   "status",
		Short: "List objects that leave clusters, and what they wait for",
		Long: `Lists the clusters whose evictions are held, and the objects that leave clusters (Leaving) or wait, with the reason. A cluster is
released with 'flagship failover release'. Objects with the reason AwaitsEnd are released with 'flagship failover fence' if their
cluster does not answer any more.`,
		Example: `  flagship failover status
  flagship failover status -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			cfg, err := hub.Config()
			if err != nil {
				return err
			}
			found, err := membership.Evictions(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			rows := make([][]string, 0, len(found))
			for _, w := range found {
				rows = append(rows, []string{cli.OrNone(strings.Join(w.Clusters, ",")), w.Kind, cli.OrNone(w.Namespace), w.Name, w.Reason, cli.OrNone(w.Message)})
			}
			return out.Print(s, found, "CLUSTER KIND NAMESPACE NAME REASON MESSAGE", rows)
		},
	}
	hub.Flags(c)
	out.Flags(c)
	return c
}

func newFailoverReleaseCommand(s cli.Streams) *cobra.Command {
	var (
		hub  cli.HubAccess
		all  bool
		pass time.Duration
	)
	c := &cobra.Command{
		Use:   "release NAME...",
		Short: "Let objects leave clusters although their evictions are held",
		Long: `When the control plane may be wrong about a cluster, or too many clusters fail at once, objects stay, and the Cluster has the
condition EvictionHeld. This command lets them leave for the time of --for. A copy without a successor stays all the same.`,
		Example: `  flagship failover release member1
  flagship failover release --all --for 2h`,
		Args: func(_ *cobra.Command, args []string) error {
			if all != (len(args) == 0) {
				return cli.UsageErrorf("release needs either the names of clusters or --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, clusters []string) error {
			if pass <= 0 || pass > clusterv1alpha1.MaxEvictionRelease {
				return cli.UsageErrorf("--for must be more than 0 and at most %s", clusterv1alpha1.MaxEvictionRelease)
			}
			cfg, err := hub.Config()
			if err != nil {
				return err
			}
			until := time.Now().Add(pass)
			released, err := membership.ReleaseEvictions(cmd.Context(), cfg, clusters, until)
			for _, cluster := range released {
				fmt.Fprintf(s.Out, "objects may leave cluster %s until %s\n", cluster, until.UTC().Format(time.RFC3339))
			}
			if err == nil && len(released) == 0 {
				s.Line("no cluster has evictions that are held")
			}
			return withRight(err)
		},
	}
	hub.Flags(c)
	c.Flags().BoolVar(&all, "all", false, "every cluster whose evictions are held")
	c.Flags().DurationVar(&pass, "for", time.Hour, "for how long objects may leave, at most "+clusterv1alpha1.MaxEvictionRelease.String())
	return c
}

func newFailoverFenceCommand(s cli.Streams) *cobra.Command {
	var (
		hub     cli.HubAccess
		confirm bool
	)
	c := &cobra.Command{
		Use:   "fence NAME...",
		Short: "Confirm that nothing runs any more in clusters that failed",
		Long: `An object whose policy has the annotation flagship.io/handover: Exclusive is created elsewhere only when the end of its old copy is
certain. A cluster that is not ready cannot confirm that. A person confirms it with this command, for the present failure of the cluster:
its machines are off, or its storage and its credentials were taken away. A later failure needs a new confirmation.

If that is not so, the object runs twice. The copies in the cluster are deleted when it is ready again.`,
		Example: "  flagship failover fence member1 --confirm",
		Args:    cli.AtLeast(1, "the name of a cluster"),
		RunE: func(cmd *cobra.Command, clusters []string) error {
			if !confirm {
				return cli.UsageErrorf("nothing was written. First make sure that nothing runs in %s: its machines are off, or its storage and its credentials "+
					"were taken away. Then run the command again with --confirm", strings.Join(clusters, ", "))
			}
			cfg, err := hub.Config()
			if err != nil {
				return err
			}
			fenced, err := membership.Fence(cmd.Context(), cfg, clusters)
			for _, cluster := range fenced {
				fmt.Fprintf(s.Out, "cluster %s is fenced until it is ready again\n", cluster)
			}
			return withRight(err)
		},
	}
	hub.Flags(c)
	c.ValidArgsFunction = hub.ClusterNames
	c.Flags().BoolVar(&confirm, "confirm", false, "nothing runs in the clusters any more")
	return c
}

// withRight adds to a refusal which right is missing.
func withRight(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: the command needs the verbs get, list and patch for clusters.%s; ask an operator of the control plane", err, clusterv1alpha1.GroupName)
	}
	return err
}
