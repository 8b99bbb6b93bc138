package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Streams are where a command reads and writes. Nothing of a command is written elsewhere.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Line prints one line.
func (s Streams) Line(text string) { fmt.Fprintln(s.Out, text) }

// Main runs a program with the process's arguments and streams, and returns its exit code: 0 on success, 1 when the command failed,
// 2 when it was misused, that of the command in a container which it ran. The first SIGINT or SIGTERM ends the command's context, a
// second one the process.
func Main(build func(Streams) *cobra.Command) int {
	// What an event handler or a map function of client-go panics about is logged, and costs that event. By default it ends the process, which
	// is also an API server and its storage.
	utilruntime.ReallyCrash = false
	return Run(build, os.Args[1:], Streams{os.Stdin, os.Stdout, os.Stderr})
}

// Run is Main with the arguments and streams given. What is written to them is escaped; see terminal.
func Run(build func(Streams) *cobra.Command, args []string, s Streams) int {
	out, errs := &terminal{to: s.Out}, &terminal{to: s.Err}
	defer out.end()
	defer errs.end()
	s.Out, s.Err = out, errs
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root, ran := build(s), false
	prepare(root, &ran)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if code, silent := errors.AsType[Exit](err); silent {
		return int(code)
	}
	fmt.Fprintf(s.Err, "error: %v\n", err)
	var misuse UsageError
	var ended interface{ ExitStatus() int }
	switch {
	case !ran || errors.As(err, &misuse):
		return 2
	case errors.As(err, &ended):
		return ended.ExitStatus()
	}
	return 1
}

// prepare has commands report that they run: what fails before is misuse. A command that only has others is an error by itself, so
// that a misspelt one among them is no success.
func prepare(c *cobra.Command, ran *bool) {
	var names []string
	for _, sub := range c.Commands() {
		prepare(sub, ran)
		names = append(names, sub.Name())
	}
	if c.HasParent() && !c.Runnable() {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, _ []string) error {
			return UsageErrorf("%s needs a command: %s\nrun '%s --help' for what they do", c.Name(), strings.Join(names, ", "), c.CommandPath())
		}
	}
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			*ran = true
			return run(c, args)
		}
	}
}

// Exit is the exit code of a command whose output has all there is to tell.
type Exit int

// Error implements error.
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// UsageError is a command line that makes no sense.
type UsageError struct{ error }

// Unwrap returns the reason.
func (e UsageError) Unwrap() error { return e.error }

// UsageErrorf formats the reason like fmt.Errorf.
func UsageErrorf(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Root completes a program's first command, which has a name and a description, and adds its subcommands and the command version.
func Root(s Streams, root *cobra.Command, commands ...[]*cobra.Command) *cobra.Command {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return UsageErrorf("%w\nrun '%s --help' for the flags", err, c.CommandPath())
	})
	root.AddCommand(slices.Concat(commands...)...)
	root.AddCommand(newVersionCommand(s))
	return root
}
