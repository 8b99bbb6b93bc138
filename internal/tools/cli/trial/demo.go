package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/examples"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/playground"
	"github.com/flagship-k8s/flagship/internal/tools/playground/demo"
)

// demoOptions are those of the demo beside the fleet's.
type demoOptions struct {
	once    bool
	timeout time.Duration
}

func newDemoCommand(s cli.Streams) *cobra.Command {
	c := playground.Config{Out: s.Out}
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work: a control plane, two members, an nginx Deployment",
		Long: `Starts a playground (see 'flagship up'), applies a Deployment, a Service and a PropagationPolicy, and shows how they reach the
members and how their status comes back. Then it prints what to try next and keeps running until Ctrl-C.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), s, c, o) },
	}
	fleetFlags(cmd, &c, &c.Members)
	cmd.Flags().Lookup("data-dir").Usage = "where everything is kept (default: a temporary directory, removed at the end)"
	cmd.Flags().Lookup("members").Usage = "number of member clusters"
	cmd.Flags().BoolVar(&o.once, "once", false, "end when the status is back: with 0, or with the reason after --timeout")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 3*time.Minute, "how long all of it may take, starting included")
	return cmd
}

func runDemo(ctx context.Context, s cli.Streams, c playground.Config, o demoOptions) (err error) {
	if c.DataDir == "" {
		if c.DataDir, err = os.MkdirTemp("", "flagship-demo-"); err != nil {
			return fmt.Errorf("making a data directory: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.DataDir)) }()
	}
	c.StartTimeout = o.timeout
	life, end := context.WithCancel(ctx)
	defer end()
	timed, cancel := context.WithTimeoutCause(life, o.timeout, fmt.Errorf("the status was not back within %s", o.timeout))
	defer cancel()
	p, err := startFleet(life, c, nil)
	if err != nil {
		if ctx.Err() != nil {
			return nil // ended by a signal while starting
		}
		return err
	}
	shown := showDemo(timed, s, p)
	switch {
	case ctx.Err() != nil:
		shown = nil
	case o.once:
		end()
	case shown != nil:
		fmt.Fprintf(s.Out, "\n%v\n", shown)
		shown = nil
	default:
		fmt.Fprint(s.Out, nextSteps(p))
	}
	return errors.Join(shown, p.Wait())
}

// showDemo carries the example and returns why its status did not come back.
func showDemo(ctx context.Context, s cli.Streams, p *playground.Playground) error {
	manifests, err := examples.Nginx()
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "Flagship is ready: export KUBECONFIG=%s\n\nApplying examples/nginx: a Deployment, a Service, a PropagationPolicy\n\n", playground.HubKubeconfig(p.DataDir()))
	began := time.Now()
	err = demo.Run(ctx, demo.Config{
		Hub: p.HubConfig(), Namespace: "default", Manifests: manifests, Out: s.Raw().Out, Redraw: isTerminal(s.Raw().Out),
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "\nThe Deployment runs in the members and its status is back, %s after it was applied.\n", time.Since(began).Round(10*time.Millisecond))
	return nil
}

// nextSteps is what a person may want to try on a running demo.
func nextSteps(p *playground.Playground) string {
	hub := playground.HubKubeconfig(p.DataDir())
	text := fmt.Sprintf(`
Try in another terminal:

  export KUBECONFIG=%s
  kubectl get deployment nginx                    # the template, with the status of all members
  kubectl get clusters                            # the members
  kubectl get resourcebindings nginx-deployment   # where it went
  kubectl scale deployment nginx --replicas 10
`, hub)
	if members := p.Members(); len(members) > 0 {
		last := members[len(members)-1].Name
		text += fmt.Sprintf(`  kubectl --kubeconfig %s get pods
  %s member stop %s --data-dir %s   # an outage; 'member start' ends it
`, playground.MemberKubeconfig(p.DataDir(), last), os.Args[0], last, p.DataDir())
	}
	return text + "\nCtrl-C ends it.\n"
}

// isTerminal returns whether the output is a terminal, not a pipe or a file.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
