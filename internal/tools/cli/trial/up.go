package trial

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/playground"
)

func newUpCommand(s cli.Streams) *cobra.Command {
	c := playground.Config{Members: -1, Nodes: playground.DefaultNodes, Devices: playground.DefaultDevices, Out: s.Out}
	var members int
	var set []string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a control plane with member clusters on this machine",
		Long: `Starts a control plane and member clusters: real API servers with workload controllers, a scheduler and simulated nodes,
so that everything but the containers is there. It stays in the foreground until Ctrl-C; the data directory keeps all state
for the next time.

Kubeconfig files are written to the data directory: hub.kubeconfig, member1.kubeconfig, member2.kubeconfig and so on.`,
		Example: `  flagship up
  flagship up --members 3 --data-dir /tmp/fleet --port 7443
  flagship up --set cluster-failure-threshold=10s --failing-images nginx:1.99
  flagship up --members 3 --pull member3                 # member3 has an agent, which dials the control plane
  flagship member pause member2 --data-dir /tmp/fleet    # in another terminal: an outage`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cmd.Flags().Changed("members") {
				if members < 0 {
					return cli.UsageErrorf("--members cannot be %d", members)
				}
				c.Members = members
			}
			if c.DataDir, err = orPlaygroundDir(c.DataDir); err != nil {
				return err
			}
			if _, err := hubOptions(playground.HubOptions{}, set); err != nil {
				return err // before anything is started
			}
			return runUp(cmd.Context(), s, c, set)
		},
	}
	fleetFlags(cmd, &c, &members)
	cmd.Flags().IntVar(&c.Port, "port", 0, "port of the control plane (default: a free one, kept in the data directory)")
	cmd.Flags().StringArrayVar(&set, "set", nil, "a flag of 'flagship server' for the control plane, as NAME=VALUE (may be given again); one of the brake turns the brake on")
	cmd.Flags().StringSliceVar(&c.FailingImages, "failing-images", nil, "images that cannot be pulled in members, such as nginx:1.99, separated by commas")
	return cmd
}

// fleetFlags are those that say what fleet to run.
func fleetFlags(cmd *cobra.Command, c *playground.Config, members *int) {
	f := cmd.Flags()
	f.IntVar(members, "members", playground.DefaultMembers, "number of member clusters (default: as many as the data directory has)")
	f.IntVar(&c.Nodes, "nodes", playground.DefaultNodes, "simulated nodes in each new member")
	f.StringVar(&c.NodeCPU, "node-cpu", "", "CPUs of each node in a new member (default 32)")
	f.StringVar(&c.NodeMemory, "node-memory", "", "memory of each node in a new member (default 256Gi)")
	f.IntVar(&c.Devices, "devices", playground.DefaultDevices, "devices for resource claims on each node in a new member; 0 for none")
	f.StringVar(&c.DataDir, "data-dir", "", "where everything is kept (default: playground in the user's state directory)")
	f.BoolVar(&c.Bare, "bare", false, "new members get neither workload controllers nor a scheduler nor nodes")
	f.StringSliceVar(&c.Pull, "pull", nil, "names of new members that have an agent, which dials the control plane, separated by commas")
	f.BoolVar(&c.Profiling, "profiling", false, "serve /debug/pprof on the control plane to its administrators")
}

// runUp is the life of a playground.
func runUp(ctx context.Context, s cli.Streams, c playground.Config, set []string) error {
	p, err := startFleet(ctx, c, set)
	if err != nil {
		if ctx.Err() != nil {
			return nil // ended by a signal while starting
		}
		return err
	}
	fmt.Fprintf(s.Out, "Flagship is ready: export KUBECONFIG=%s   (Ctrl-C ends it)\n", playground.HubKubeconfig(p.DataDir()))
	printContexts(s.Out, p)
	err = p.Wait()
	fmt.Fprintln(s.Out, "Flagship has ended; its state stays in "+p.DataDir())
	return err
}

// printContexts prints how to reach the members beside the control plane.
func printContexts(out io.Writer, p *playground.Playground) {
	members := p.Members()
	if len(members) == 0 {
		return
	}
	files := []string{playground.HubKubeconfig(p.DataDir())}
	for _, member := range members {
		files = append(files, playground.MemberKubeconfig(p.DataDir(), member.Name))
	}
	fmt.Fprintf(out, "With its members as contexts, such as kubectl --context %s: export KUBECONFIG=%s\n", members[0].Name, strings.Join(files, string(filepath.ListSeparator)))
}

// startFleet starts a fleet whose control plane has some flags of the command server set.
func startFleet(ctx context.Context, c playground.Config, set []string) (*playground.Playground, error) {
	c.StartHub = func(ctx context.Context, o playground.HubOptions) (playground.Hub, error) {
		return startHub(ctx, o, set)
	}
	c.Join, c.Register = join, register
	return playground.Start(ctx, c)
}

// orPlaygroundDir is the data directory given, or the default one.
func orPlaygroundDir(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	dir, err := cli.StateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "playground"), nil
}
