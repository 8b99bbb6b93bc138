package members

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/kubectl/pkg/cmd/attach"
	"k8s.io/kubectl/pkg/cmd/exec"
	"k8s.io/kubectl/pkg/cmd/portforward"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/fleet"
)

// podTimeout is how long exec, attach and port-forward wait for a pod of a workload that runs.
const podTimeout = time.Minute

const oneCluster = "The pod or workload is looked for in all clusters, or in those of --clusters. If several have it, the command names them and ends."

func streams(s cli.Streams) genericiooptions.IOStreams {
	return genericiooptions.IOStreams{In: s.In, Out: s.Out, ErrOut: s.Err}
}

// owner returns the one cluster that has the pod or workload.
func owner(ctx context.Context, s cli.Streams, f *fleet.Fleet, args ...string) (fleet.Member, error) {
	members, err := f.Members(ctx)
	if err != nil {
		return fleet.Member{}, err
	}
	if len(members) == 1 {
		return members[0], nil
	}
	var where fleet.Selection
	answers := fleet.FromEach(members, func(m fleet.Member) (bool, error) {
		infos, err := where.Builder(m).ResourceNames("pods", args...).Do().Infos()
		return len(infos) > 0, err
	})
	var names []string
	var found fleet.Member
	for i, a := range answers {
		if a.Value {
			names, found = append(names, a.Cluster), members[i]
		}
	}
	switch len(names) {
	case 0:
		if err := fleet.Failures(s, answers); err != nil {
			return fleet.Member{}, err
		}
		return fleet.Member{}, fmt.Errorf("%s is in none of the clusters", strings.Join(args, " "))
	case 1:
		return found, nil
	}
	return fleet.Member{}, fmt.Errorf("%s is in %s\nchoose one of them with --clusters", strings.Join(args, " "), strings.Join(names, ", "))
}

// executor runs a command or attaches, and ends when the context of the command ends.
type executor func(url *url.URL, config *rest.Config, stdin io.Reader, stdout, stderr io.Writer, tty bool, sizes remotecommand.TerminalSizeQueue) error

func executorUntil(ctx context.Context) executor {
	return func(url *url.URL, config *rest.Config, stdin io.Reader, stdout, stderr io.Writer, tty bool, sizes remotecommand.TerminalSizeQueue) error {
		return new(exec.DefaultRemoteExecutor).ExecuteWithContext(ctx, url, config, stdin, stdout, stderr, tty, sizes)
	}
}

// Execute implements exec.RemoteExecutor.
func (e executor) Execute(url *url.URL, config *rest.Config, stdin io.Reader, stdout, stderr io.Writer, tty bool, sizes remotecommand.TerminalSizeQueue) error {
	return e(url, config, stdin, stdout, stderr, tty, sizes)
}

// ExecuteWithContext implements exec.RemoteExecutor.
func (e executor) ExecuteWithContext(_ context.Context, url *url.URL, config *rest.Config, stdin io.Reader, stdout, stderr io.Writer, tty bool, sizes remotecommand.TerminalSizeQueue) error {
	return e(url, config, stdin, stdout, stderr, tty, sizes)
}

// Attach implements attach.RemoteAttach.
func (e executor) Attach(url *url.URL, config *rest.Config, stdin io.Reader, stdout, stderr io.Writer, tty bool, sizes remotecommand.TerminalSizeQueue) error {
	return e(url, config, stdin, stdout, stderr, tty, sizes)
}

// toPod is a command of kubectl that streams to a pod of one cluster.
type toPod struct {
	// complete prepares the command for a cluster.
	complete func(cmd *cobra.Command, f cmdutil.Factory, args []string) error
	validate func() error
	run      func(context.Context) error
}

// in has c run the command in the one cluster that has the pod or workload of its first argument.
func (t toPod) in(s cli.Streams, c *cobra.Command) *cobra.Command {
	var f fleet.Fleet
	c.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := owner(cmd.Context(), s, &f, args[0])
		if err != nil {
			return err
		}
		if err := t.complete(cmd, m.Factory, args); err != nil {
			return fleet.In(m, err)
		}
		if err := t.validate(); err != nil {
			return err
		}
		return fleet.In(m, t.run(cmd.Context()))
	}
	f.Flags(c)
	cmdutil.AddPodRunningTimeoutFlag(c, podTimeout)
	return c
}

// withStreams adds the flags of exec and attach.
func withStreams(c *cobra.Command, o *exec.StreamOptions) *cobra.Command {
	c.Flags().StringVarP(&o.ContainerName, "container", "c", "", "the container (default: that of the pod's annotation, else its first)")
	c.Flags().BoolVarP(&o.Stdin, "stdin", "i", false, "pass stdin to the container")
	c.Flags().BoolVarP(&o.TTY, "tty", "t", false, "stdin is a terminal")
	c.Flags().BoolVarP(&o.Quiet, "quiet", "q", false, "print only what the container prints")
	return c
}

func newExecCommand(s cli.Streams) *cobra.Command {
	o := &exec.ExecOptions{StreamOptions: exec.StreamOptions{IOStreams: streams(s.Raw())}}
	complete := func(cmd *cobra.Command, f cmdutil.Factory, args []string) error {
		o.Executor = executorUntil(cmd.Context())
		return o.Complete(f, cmd, args, cmd.ArgsLenAtDash())
	}
	return withStreams(toPod{complete, o.Validate, func(context.Context) error { return o.Run() }}.in(s, &cobra.Command{
		Use:     "exec (POD | TYPE/NAME) [-c CONTAINER] -- COMMAND [args...]",
		Short:   "Run a command in a container of a member",
		Long:    "Runs a command in a container, as kubectl exec does, and ends with the exit code of the command.\n" + oneCluster,
		Example: "  flagship exec -it deploy/nginx --clusters member1 -- sh",
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 1 || len(args) < 2 {
				return cli.UsageErrorf("exec needs a pod or workload and, after --, a command\nusage: %s", c.UseLine())
			}
			return nil
		},
	}), &o.StreamOptions)
}

func newAttachCommand(s cli.Streams) *cobra.Command {
	o := attach.NewAttachOptions(streams(s.Raw()))
	complete := func(cmd *cobra.Command, f cmdutil.Factory, args []string) error {
		o.Attach = executorUntil(cmd.Context())
		return o.Complete(f, cmd, args)
	}
	run := func(ctx context.Context) error {
		if err := o.Run(); ctx.Err() == nil {
			return err
		}
		return nil // Ctrl-C detaches
	}
	return withStreams(toPod{complete, o.Validate, run}.in(s, &cobra.Command{
		Use:     "attach (POD | TYPE/NAME) [-c CONTAINER]",
		Short:   "Attach to a container of a member",
		Long:    "Attaches to the process of a container, as kubectl attach does, until Ctrl-C.\n" + oneCluster,
		Example: "  flagship attach -it pod/shell --clusters member1",
		Args:    cli.Exactly(1, "a pod or workload"),
	}), &o.StreamOptions)
}

func newPortForwardCommand(s cli.Streams) *cobra.Command {
	o := portforward.NewDefaultPortForwardOptions(streams(s))
	complete := func(cmd *cobra.Command, f cmdutil.Factory, args []string) error { return o.Complete(f, cmd, args) }
	validate, run := func() error { return o.Validate() }, func(ctx context.Context) error { return o.RunPortForwardContext(ctx) } // o is changed until then
	c := toPod{complete, validate, run}.in(s, &cobra.Command{
		Use:     "port-forward (POD | TYPE/NAME) [LOCAL_PORT:]REMOTE_PORT...",
		Short:   "Forward local ports to a pod of a member",
		Long:    "Forwards local ports to a pod, as kubectl port-forward does, until Ctrl-C.\n" + oneCluster,
		Example: "  flagship port-forward deploy/nginx 8080:80 --clusters member1",
		Args:    cli.AtLeast(2, "a pod or workload, and a port"),
	})
	c.Flags().StringSliceVar(&o.Address, "address", []string{"localhost"}, "the addresses to listen on")
	return c
}
