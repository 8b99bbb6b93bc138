package trial

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/host/memory"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/agents"
	"github.com/flagship-k8s/flagship/internal/tools/playground"
	"github.com/flagship-k8s/flagship/internal/tools/playground/child"
	"github.com/flagship-k8s/flagship/internal/tools/playground/simcluster"
)

// newMemberCommand is for outages: what it does to a member's process is what happens to clusters.
func newMemberCommand(s cli.Streams) *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "member",
		Short: "Stop, start, pause or resume a member of the playground",
		Example: `  flagship member stop member2      # a power cut
  flagship member start member2
  flagship member pause member1     # a cluster that hangs: connections stay open and nothing answers
  flagship member resume member1`,
	}
	cmd.PersistentFlags().StringVar(&dataDir, "data-dir", "", "data directory of the playground (default: playground in the user's state directory)")
	verb := func(verb playground.Verb, short, done string) *cobra.Command {
		return &cobra.Command{
			Use: string(verb) + " NAME", Short: short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				if _, err := control(cmd.Context(), dataDir, verb, args[0]); err != nil {
					return err
				}
				fmt.Fprintf(s.Out, "%s %s\n", args[0], done)
				return nil
			},
		}
	}
	cmd.AddCommand(
		verb(playground.Stop, "End a member's process", "stopped"),
		verb(playground.StartMember, "Start a member that is stopped", "started"),
		verb(playground.Pause, "Freeze a member's process", "paused"),
		verb(playground.Resume, "Let a frozen member go on", "resumed"),
		&cobra.Command{
			Use: "list", Short: "Show what every member's process is doing", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				members, err := control(cmd.Context(), dataDir, playground.List, "")
				if err != nil {
					return err
				}
				return printMembers(s, members)
			},
		},
	)
	return cmd
}

func control(ctx context.Context, dataDir string, verb playground.Verb, member string) ([]playground.MemberStatus, error) {
	dir, err := orPlaygroundDir(dataDir)
	if err != nil {
		return nil, err
	}
	return playground.Control(ctx, dir, verb, member)
}

func printMembers(s cli.Streams, members []playground.MemberStatus) error {
	w := tabwriter.NewWriter(s.Out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tPID\tAGENT\tSERVER")
	for _, m := range members {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", m.Name, m.State, pid(m.PID), pid(m.AgentPID), m.Server)
	}
	return w.Flush()
}

func pid(id int) string {
	if id == 0 {
		return "-"
	}
	return strconv.Itoa(id)
}

// newAgentProcessCommand is what a playground starts for a member in Pull mode: the command agent, which ends with its parent.
func newAgentProcessCommand(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use: playground.AgentCommand, Short: "Be the agent of a member of a playground", Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := child.NewChild().Bind(cmd.Context())
			defer cancel()
			agent := agents.NewAgentCommand(s)
			agent.SetArgs(args)
			agent.SilenceErrors, agent.SilenceUsage = true, true
			return agent.ExecuteContext(ctx)
		},
	}
}

// newMemberProcessCommand is what a playground starts; it reports to its parent and ends with it.
func newMemberProcessCommand() *cobra.Command {
	var c simcluster.Config
	cmd := &cobra.Command{
		Use: playground.MemberCommand, Short: "Be a member of a playground", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			child := child.NewChild()
			ctx, cancel := child.Bind(cmd.Context())
			defer cancel()
			defer memory.Adapt(ctx)()
			var reported sync.Once
			var reportErr error
			report := func(err error) { reported.Do(func() { reportErr = child.Report(err) }) }
			err := simcluster.Run(ctx, c, func() { report(nil) })
			report(fmt.Errorf("ended before it was ready: %w", err))
			return errors.Join(err, reportErr)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Name, "name", "member", "name of the cluster")
	f.StringVar(&c.DataDir, "data-dir", "", "where its state is kept")
	f.StringVar(&c.Kubeconfig, "write-kubeconfig", "", "file to write an administrator's kubeconfig to")
	f.IntVar(&c.Port, "port", 0, "port to listen on")
	f.StringVar(&c.PodCIDR, "pod-cidr", "", "range of pod addresses")
	f.StringVar(&c.ServiceCIDR, "service-cidr", "", "range of cluster IPs, or two of different families separated by a comma")
	f.IntVar(&c.Nodes, "nodes", 0, "number of simulated nodes")
	f.StringVar(&c.NodeCPU, "node-cpu", "", "CPUs of each node")
	f.StringVar(&c.NodeMemory, "node-memory", "", "memory of each node")
	f.IntVar(&c.Devices, "devices", 0, "devices for resource claims on each node")
	f.BoolVar(&c.Bare, "bare", false, "API server only")
	f.StringSliceVar(&c.FailingImages, "failing-images", nil, "images that cannot be pulled")
	f.StringToStringVar(&c.RuntimeConfig, "runtime-config", nil, "versions of built-in kinds to turn on or off, such as autoscaling/v2=false")
	f.Int64Var(&c.StorageQuota, "storage-quota", 0, "most bytes to store")
	return cmd
}
