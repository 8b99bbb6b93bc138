package trial

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/flagship-k8s/flagship/internal/tools/bench/scheduling"

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
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Binary, err = os.Executable(); err != nil {
				return fmt.Errorf("finding the running binary: %w", err)
			}
			if file != "" {
				f, err := os.Create(file)
				if err != nil {
					return fmt.Errorf("creating the file for results: %w", err)
				}
				defer func() { _ = f.Close() }()
				o.JSON = io.Writer(f)
			}
			return bench.Run(c.Context(), o)
		},
	}
	c.Flags().StringVar(&file, "json", "", "also write the results to this file as JSON")
	c.Flags().StringVar(&o.ProfileDir, "profile-dir", "", "also keep CPU and heap profiles of the control plane in this directory")
	c.Flags().BoolVar(&o.Wide, "wide", true, "include the scenario with ten members, which takes several GB of memory")
	c.Flags().StringSliceVar(&o.Only, "only", nil, "measure only these scenarios and what they build on: a, b, c, d, e, x (deletion), claims, f (ten thousand Works in one member; only if named)")
	c.Flags().DurationVar(&o.Timeout, "timeout", 10*time.Minute, "give up when one scenario takes longer")
	c.AddCommand(newBenchScheduleCommand(s), newBenchCrowdCommand(s), newBenchServicesCommand(s), newBenchDefinitionsCommand(s))
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
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Binary, err = os.Executable(); err != nil {
				return fmt.Errorf("finding the running binary: %w", err)
			}
			return scheduling.RunSchedule(c.Context(), o)
		},
	}
	c.Flags().IntVar(&o.Clusters, "clusters", 1000, "number of clusters")
	c.Flags().IntVar(&o.Bindings, "bindings", 10_000, "number of bindings")
	c.Flags().StringVar(&o.ProfileDir, "profile-dir", "", "also keep CPU and heap profiles of the control plane in this directory")
	c.Flags().DurationVar(&o.Timeout, "timeout", 5*time.Minute, "give up when the clusters, or the bindings, take longer")
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
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Binary, err = os.Executable(); err != nil {
				return fmt.Errorf("finding the running binary: %w", err)
			}
			return scheduling.RunCrowd(c.Context(), o)
		},
	}
	c.Flags().IntVar(&o.Objects, "objects", 10_000, "number of objects under the policy")
	c.Flags().DurationVar(&o.Timeout, "timeout", 10*time.Minute, "give up when one step takes longer")
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
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Binary, err = os.Executable(); err != nil {
				return fmt.Errorf("finding the running binary: %w", err)
			}
			return bench.RunServices(c.Context(), o)
		},
	}
	c.Flags().StringVar(&o.ProfileDir, "profile-dir", "", "also keep CPU and heap profiles of the control plane in this directory")
	c.Flags().DurationVar(&o.Timeout, "timeout", 5*time.Minute, "give up when all of it takes longer")
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
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Binary, err = os.Executable(); err != nil {
				return fmt.Errorf("finding the running binary: %w", err)
			}
			return bench.RunDefinitions(c.Context(), o)
		},
	}
	c.Flags().StringVar(&o.ProfileDir, "profile-dir", "", "also keep CPU and heap profiles of the control plane in this directory")
	c.Flags().DurationVar(&o.Timeout, "timeout", 10*time.Minute, "give up when it takes longer")
	return c
}
