package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// ErrSilent ends the program with a failure that has already been told.
var ErrSilent = errors.New("failed")

// Main runs the program and returns its exit code: 0 on success, 1 when the command failed, 2 when it was misused.
// The first SIGINT or SIGTERM ends the command's context, a second one the process.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := NewRootCommand(Streams{in, out, errOut})
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrSilent):
	default:
		fmt.Fprintf(errOut, "error: %v\n", err)
	}
	var misuse usageError
	if errors.As(err, &misuse) {
		return 2
	}
	return 1
}

// usageError is a command line that makes no sense.
type usageError struct{ error }

// NewRootCommand builds the whole command tree.
func NewRootCommand(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "flagship",
		Short: "A multi-cluster Kubernetes control plane in one binary",
		Long: `Flagship keeps one control plane and many member clusters.

Apply a Deployment, or any other kind, and a PropagationPolicy to the control plane: Flagship carries the object to the
member clusters that the policy chooses, keeps it there, and brings its status back.

  flagship demo     see it work: a control plane, two members, an nginx Deployment
  flagship up       a playground with members that are real API servers
  flagship server   the control plane alone`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\nrun '%s --help' for the flags", err, c.CommandPath())}
	})
	root.AddCommand(commands(s)...)
	return root
}

// stateDir is where a playground or server keeps its files unless told otherwise.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "flagship"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding a place for state: %w; set --data-dir", err)
	}
	return filepath.Join(home, ".local", "state", "flagship"), nil
}
