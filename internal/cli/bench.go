package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/bench"
)

func newBenchCommand(s Streams) *cobra.Command {
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
	c.Flags().DurationVar(&o.Timeout, "timeout", 5*time.Minute, "give up when one scenario takes longer")
	return c
}
