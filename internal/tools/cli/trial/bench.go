package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flagship-k8s/flagship/internal/tools/bench/etcd"
	"github.com/flagship-k8s/flagship/internal/tools/bench/failover"
	"github.com/flagship-k8s/flagship/internal/tools/bench/noise"
	"github.com/flagship-k8s/flagship/internal/tools/bench/pull"
	"github.com/flagship-k8s/flagship/internal/tools/bench/scale"
	"github.com/flagship-k8s/flagship/internal/tools/bench/scheduling"
	"github.com/flagship-k8s/flagship/internal/tools/bench/servers"
	"github.com/flagship-k8s/flagship/internal/tools/bench/standin/process"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/bench"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

func newBenchCommand(s cli.Streams) *cobra.Command {
	o := bench.Options{Out: s.Out, Log: s.Err}
	var file string
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast this machine carries objects to members",
		Long: `Starts a control plane and members in a temporary directory, carries objects, and prints times, CPU, memory and API writes.

Everything shares this machine: the control plane, the members, the bench. Run it on an idle one.`,
		Args: cobra.NoArgs,
		RunE: withBinary(&o.Binary, withResults(&file, &o.JSON, func(ctx context.Context) error {
			return bench.Run(ctx, o)
		})),
	}
	c.Flags().StringVar(&o.Binary, "binary", "", "measure the control plane and the members of this flagship binary, such as that of another version; default: the running one")
	c.Flags().StringVar(&file, "json", "", "also write the results to this file as JSON")
	c.Flags().StringVar(&o.ProfileDir, "profile-dir", "", "also keep CPU and heap profiles of the control plane in this directory")
	c.Flags().BoolVar(&o.Wide, "wide", true, "include the scenario with ten members, which takes several GB of memory")
	c.Flags().StringSliceVar(&o.Only, "only", nil, "measure only these scenarios and what they build on: a, b, c, d, e, x (deletion), claims, f (ten thousand Works in one member; only if named)")
	c.Flags().DurationVar(&o.Timeout, "timeout", 10*time.Minute, "fail when one scenario takes longer")
	c.AddCommand(newBenchScheduleCommand(s), newBenchCrowdCommand(s), newBenchServicesCommand(s), newBenchDefinitionsCommand(s),
		newBenchFleetCommand(s), newBenchStandInsCommand(s), newBenchFailoverCommand(s), newBenchNoiseCommand(s),
		newBenchAgentCommand(s), newBenchServersCommand(s), newBenchEtcdCommand())
	return c
}

func newBenchScheduleCommand(s cli.Streams) *cobra.Command {
	o := scheduling.ScheduleOptions{Out: s.Out, Log: s.Err}
	c := &cobra.Command{
		Use:   "schedule",
		Short: "Measure how fast bindings are scheduled on a large fleet",
		Long: `Starts a control plane, gives it clusters that exist on paper only, and bindings without templates, and measures the time
until the API server has a result for every binding. All ways to divide replicas take turns, each with spread constraints.`,
		Args: cobra.NoArgs,
		RunE: withBinary(&o.Binary, func(ctx context.Context) error {
			return scheduling.RunSchedule(ctx, o)
		}),
	}
	c.Flags().IntVar(&o.Clusters, "clusters", 1000, "number of clusters")
	c.Flags().IntVar(&o.Bindings, "bindings", 10_000, "number of bindings")
	c.Flags().StringVar(&o.ProfileDir, "profile-dir", "", "also keep CPU and heap profiles of the control plane in this directory")
	c.Flags().DurationVar(&o.Timeout, "timeout", 5*time.Minute, "fail when the clusters, or the bindings, take longer")
	return c
}

func newBenchCrowdCommand(s cli.Streams) *cobra.Command {
	o := scheduling.CrowdOptions{Out: s.Out, Log: s.Err}
	c := &cobra.Command{
		Use:   "crowd",
		Short: "Measure what thousands of objects under one policy do to others",
		Long: `Starts a control plane, gives it clusters that exist on paper only, and one namespace with thousands of ConfigMaps under one
policy. It counts how many of them are placed before the one object of another namespace, and what is written when one changes.`,
		Args: cobra.NoArgs,
		RunE: withBinary(&o.Binary, func(ctx context.Context) error {
			return scheduling.RunCrowd(ctx, o)
		}),
	}
	c.Flags().IntVar(&o.Objects, "objects", 10_000, "number of objects under the policy")
	c.Flags().DurationVar(&o.Timeout, "timeout", 10*time.Minute, "fail when one step takes longer")
	return c
}

func newBenchServicesCommand(s cli.Streams) *cobra.Command {
	o := bench.Options{Out: s.Out, Log: s.Err}
	c := &cobra.Command{
		Use:   "services",
		Short: "Measure how long endpoints take from the member that provides them to those that consume them",
		Long: `Starts a control plane with three bare members, shares a hundred Services of three hundred endpoints each between all of
them, and has one endpoint at a time become ready. The bench stands in for the members' endpoint controllers.`,
		Args: cobra.NoArgs,
		RunE: withBinary(&o.Binary, func(ctx context.Context) error {
			return bench.RunServices(ctx, o)
		}),
	}
	c.Flags().StringVar(&o.ProfileDir, "profile-dir", "", "also keep CPU and heap profiles of the control plane in this directory")
	c.Flags().DurationVar(&o.Timeout, "timeout", 5*time.Minute, "fail when all of it takes longer")
	return c
}

func newBenchDefinitionsCommand(s cli.Streams) *cobra.Command {
	o := bench.Options{Out: s.Out, Log: s.Err}
	c := &cobra.Command{
		Use:   "definitions",
		Short: "Measure what many definitions of kinds cost",
		Long: `Starts a control plane without members, defines 500 kinds of about 15 KB each, and prints the time until all are served and
by how much the heap and the process have grown.`,
		Args: cobra.NoArgs,
		RunE: withBinary(&o.Binary, func(ctx context.Context) error {
			return bench.RunDefinitions(ctx, o)
		}),
	}
	c.Flags().StringVar(&o.ProfileDir, "profile-dir", "", "also keep CPU and heap profiles of the control plane in this directory")
	c.Flags().DurationVar(&o.Timeout, "timeout", 10*time.Minute, "fail when it takes longer")
	return c
}

func newBenchFailoverCommand(s cli.Streams) *cobra.Command {
	o := failover.Options{Log: s.Err}
	var out cli.Output
	c := &cobra.Command{
		Use:   "failover",
		Short: "Measure how long objects take from a member that dies to another one",
		Long: `Starts a control plane with five members, kills the API server of one member after the other, and measures the time until an object
that was there is reported healthy in another member. With the default thresholds a trial takes a little more than a minute.`,
		Example: `  flagship bench failover
  flagship bench failover --trials 20 --cluster-failure-threshold 10s --toleration 5s -o json`,
		Args: cobra.NoArgs,
		RunE: withBinary(&o.Binary, func(ctx context.Context) error {
			if o.Trials < 1 {
				return cli.UsageErrorf("--trials must be at least 1")
			}
			if err := out.Check(); err != nil {
				return err
			}
			cli.LogTo(io.Discard) // the clients of the bench have nothing to report that its errors do not
			result, err := failover.Run(ctx, o)
			if len(result.Seconds) == 0 {
				return err
			}
			return errors.Join(err, out.Print(s, result, failover.Header, [][]string{result.Row()}))
		}),
	}
	c.Flags().IntVar(&o.Trials, "trials", 10, "number of members that are killed, one after the other")
	c.Flags().DurationVar(&o.FailureThreshold, "cluster-failure-threshold", 30*time.Second, "how long a member is not healthy before it is not ready")
	c.Flags().DurationVar(&o.Toleration, "toleration", 30*time.Second, "for how long the policies of the objects tolerate a cluster that is not ready")
	out.Flags(c)
	return c
}

func newBenchNoiseCommand(s cli.Streams) *cobra.Command {
	o := noise.Options{Log: s.Err}
	var out cli.Output
	c := &cobra.Command{
		Use:   "noise",
		Short: "Measure what Events of pods cost that the control plane does not manage",
		Long: `Starts a control plane with one member, which has pods that are not managed, and repeats Events about them: of the type Normal, of the
type Warning in a namespace without propagated objects, and of that type in one with such objects. It prints the CPU and the writes of the
control plane in each phase, beside those of an idle one, and the size of the Events that it received.`,
		Args: cobra.NoArgs,
		RunE: withBinary(&o.Binary, func(ctx context.Context) error {
			if o.Pods < 1 || o.Rate < 10 || o.Period < time.Second {
				return cli.UsageErrorf("--pods must be at least 1, --rate 10 and --period 1s")
			}
			if err := out.Check(); err != nil {
				return err
			}
			results, err := noise.Run(ctx, o)
			if len(results) == 0 {
				return err
			}
			var rows [][]string
			for _, r := range results {
				rows = append(rows, r.Row())
			}
			return errors.Join(err, out.Print(s, results, noise.Header, rows))
		}),
	}
	c.Flags().IntVar(&o.Pods, "pods", 1000, "number of pods in each of the two namespaces")
	c.Flags().IntVar(&o.Rate, "rate", 100, "Events a second")
	c.Flags().DurationVar(&o.Period, "period", time.Minute, "how long each phase is")
	out.Flags(c)
	return c
}

func newBenchAgentCommand(s cli.Streams) *cobra.Command {
	o := pull.Options{Log: s.Err}
	var out cli.Output
	c := &cobra.Command{
		Use:   "agent",
		Short: "Measure the memory and CPU of an agent, and how long objects take to its member",
		Long: `Starts a control plane with a member in Push mode and one in Pull mode, whose agent is the program flagship-agent. ConfigMaps are created
one a second, to measure how long each takes to both members, and then all others at once.`,
		Args: cobra.NoArgs,
		RunE: withBinary(&o.Binary, func(ctx context.Context) error {
			if o.Single < 1 || o.Objects <= o.Single || o.Rest < time.Second {
				return cli.UsageErrorf("--single must be at least 1, --objects more than that, and --rest at least 1s")
			}
			if err := out.Check(); err != nil {
				return err
			}
			if o.AgentBinary == "" {
				o.AgentBinary = filepath.Join(filepath.Dir(o.Binary), "flagship-agent")
			}
			cli.LogTo(io.Discard) // the clients of the bench have nothing to report that its errors do not
			result, err := pull.Run(ctx, o)
			if err != nil {
				return err
			}
			return out.Print(s, result, pull.Header, result.Rows())
		}),
	}
	c.Flags().StringVar(&o.AgentBinary, "agent-binary", "", "the program of the agent (default: flagship-agent, in the directory of this program)")
	c.Flags().IntVar(&o.Objects, "objects", 1000, "number of ConfigMaps in each member")
	c.Flags().IntVar(&o.Single, "single", 40, "how many of them are created one a second")
	c.Flags().DurationVar(&o.Rest, "rest", time.Minute, "how long the agent rests twice: after the objects, and while its idle CPU is measured")
	out.Flags(c)
	return c
}

func newBenchFleetCommand(s cli.Streams) *cobra.Command {
	o := scale.Options{Out: s.Out, Log: s.Err}
	var file, output string
	c := &cobra.Command{
		Use:   "fleet",
		Short: "Measure a control plane with hundreds of members",
		Long: `Starts a control plane and light stand-ins for members, which serve as much of the API of a cluster as the control plane uses,
and measures what joining them, having them at rest, and placing objects in them takes; what members that hang or are gone do to the
others; and restarts, with all objects in place, with many agents, and with many Works.`,
		Example: `  flagship bench fleet
  flagship bench fleet --members 1000 --placements 1000 --gone 200
  flagship bench fleet --servers 2 --shard-members --steps idle,place
  flagship bench fleet --steps idle --members 50 -o json`,
		Args: cobra.NoArgs,
		RunE: withBinary(&o.Binary, func(ctx context.Context) error {
			switch output {
			case "table":
			case "json":
				o.Out, o.JSON = nil, s.Out
				if file != "" {
					return cli.UsageErrorf("--json and -o json exclude each other")
				}
			default:
				return cli.UsageErrorf("--output must be table or json, not %q", output)
			}
			cli.LogTo(io.Discard) // the clients of the bench have nothing to report that its errors do not
			return withResults(&file, &o.JSON, func(ctx context.Context) error { return scale.Run(ctx, o) })(ctx)
		}),
	}
	f := c.Flags()
	f.IntVar(&o.Members, "members", 200, "number of members")
	f.IntVar(&o.Servers, "servers", 1, "number of servers of the control plane; several share one etcd, and the figures of the control plane are those of all; the steps restart, agents and works are for one")
	f.BoolVar(&o.ShardMembers, "shard-members", false, "have the servers share the members")
	f.IntVar(&o.Placements, "placements", 100, "number of objects that are placed")
	f.IntVar(&o.Targets, "targets", 100, "number of members that each object is placed in")
	f.IntVar(&o.Concurrency, "concurrency", 10, "number of objects that are placed at a time")
	f.IntVar(&o.Hanging, "hanging", 20, "number of members that hang at once")
	f.IntVar(&o.Gone, "gone", 40, "number of members that are gone at once")
	f.IntVar(&o.Agents, "agents", 1000, "number of agents with which a control plane restarts")
	f.IntVar(&o.Works, "works", 20_000, "number of Works with which a control plane restarts")
	f.DurationVar(&o.Rest, "rest", 2*time.Minute, "for how long what is at rest is measured, after as long a pause; Go collects garbage every two minutes at least")
	f.StringSliceVar(&o.Steps, "steps", nil, "measure only these steps, and joining, which all but agents and works build on: "+strings.Join(scale.Steps, ", "))
	f.StringVarP(&output, "output", "o", "table", "print the figures as a table or as json")
	f.StringVar(&file, "json", "", "also write the figures to this file as JSON")
	f.StringVar(&o.ProfileDir, "profile-dir", "", "also keep profiles of the control plane in this directory")
	f.StringVar(&o.Dir, "dir", "", "directory for the data of the control plane, which is removed at the end (default: that of the system)")
	f.DurationVar(&o.Timeout, "timeout", 30*time.Minute, "fail when one step takes longer")
	return c
}

func newBenchServersCommand(s cli.Streams) *cobra.Command {
	o := servers.Options{Log: s.Err}
	var out cli.Output
	c := &cobra.Command{
		Use:   "servers",
		Short: "Measure how long servers take until another one runs the control loops",
		Long: `Starts several servers on one etcd, and ends the leader again and again, in turns by a crash and in order. Measures the time from the
signal until another server has the lease of the leader, and until its loops have made the binding of an object.`,
		Example: `  flagship bench servers
  flagship bench servers --servers 2 --rounds 20 -o json`,
		Args: cobra.NoArgs,
		RunE: withBinary(&o.Binary, func(ctx context.Context) error {
			if o.Servers < 2 || o.Rounds < 1 {
				return cli.UsageErrorf("--servers must be at least 2, and --rounds 1")
			}
			if err := out.Check(); err != nil {
				return err
			}
			cli.LogTo(io.Discard) // the clients of the bench have nothing to report that its errors do not
			results, err := servers.Run(ctx, o)
			var rows [][]string
			for _, r := range results {
				rows = append(rows, r.Row())
			}
			if len(rows) == 0 {
				return err
			}
			return errors.Join(err, out.Print(s, results, servers.Header, rows))
		}),
	}
	c.Flags().IntVar(&o.Servers, "servers", 3, "number of servers")
	c.Flags().IntVar(&o.Rounds, "rounds", 10, "how often the leader crashes, and ends in order")
	c.Flags().DurationVar(&o.Timeout, "timeout", 2*time.Minute, "fail when a takeover takes longer")
	out.Flags(c)
	return c
}

// newBenchEtcdCommand is what several servers of a bench share.
func newBenchEtcdCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:    "etcd",
		Short:  "Run etcd until the input ends",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return etcd.Serve(c.Context(), dir, c.InOrStdin(), c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "the data directory")
	return c
}

// newBenchStandInsCommand is what bench fleet runs its members with.
func newBenchStandInsCommand(s cli.Streams) *cobra.Command {
	var count int
	c := &cobra.Command{
		Use:    "stand-ins",
		Short:  "Run light stand-ins for members until the input ends",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return process.Serve(c.Context(), count, c.InOrStdin(), s.Out)
		},
	}
	c.Flags().IntVar(&count, "count", 10, "number of stand-ins")
	return c
}

// withBinary runs a bench with the path of the binary with which it starts control planes and members: this one, unless another is given.
func withBinary(binary *string, bench func(context.Context) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) (err error) {
		if *binary == "" {
			if *binary, err = os.Executable(); err != nil {
				return fmt.Errorf("finding the running binary: %w", err)
			}
		}
		return bench(c.Context())
	}
}

// withResults runs a bench that also writes its results to a file, unless the path is empty.
func withResults(path *string, out *io.Writer, bench func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if *path == "" {
			return bench(ctx)
		}
		f, err := os.Create(*path)
		if err != nil {
			return fmt.Errorf("creating the file for results: %w", err)
		}
		defer func() { _ = f.Close() }()
		*out = f
		return bench(ctx)
	}
}
