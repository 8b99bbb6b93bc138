package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// errFailed is the error of a run in which a test failed; the report before it has which.
var errFailed = errors.New("tests failed: see FAIL above")

// options are what the flags set.
type options struct {
	changed, reached string
	// run is a pattern of tests, as that of go test.
	run string
	// timeout bounds the tests of one package.
	timeout time.Duration
	// jobs is how many packages of kind fleet run at a time.
	jobs int
}

const usage = "usage: suite unit|fleet|all|race [flags] PACKAGE, or suite list KIND [flags] PACKAGE"

func run(ctx context.Context, out io.Writer, args []string) error {
	list := len(args) > 1 && args[0] == "list"
	if list {
		args = args[1:]
	}
	if len(args) == 0 || !slices.Contains([]string{kindUnit, kindFleet, kindRace, kindAll}, args[0]) && (!list || args[0] != kindAny) {
		return errors.New(usage)
	}
	kind := args[0]
	o := options{}
	flags := flag.NewFlagSet("suite", flag.ContinueOnError)
	flags.StringVar(&o.changed, "changed", "", "take only packages with a file that differs from this commit")
	flags.StringVar(&o.reached, "reached", "", "take only packages whose tests depend on a file that differs from this commit")
	flags.StringVar(&o.run, "run", "", "run only tests that match this pattern")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Minute, "the longest that the tests of a package may take")
	flags.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "how many packages with servers are tested at a time")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	packages, err := find(ctx, flags.Args())
	if err != nil {
		return err
	}
	if packages, err = selected(ctx, packages, o); err != nil {
		return err
	}
	if list {
		for _, p := range ofKind(packages, kind) {
			if _, err := fmt.Fprintln(out, p.path); err != nil {
				return fmt.Errorf("printing the packages: %w", err)
			}
		}
		return nil
	}
	return test(ctx, out, packages, kind, o)
}

// test runs the packages of a kind and prints the report.
func test(ctx context.Context, out io.Writer, packages []testPackage, kind string, o options) error {
	r := newReport(out)
	begin := time.Now()
	var err error
	switch kind {
	case kindRace:
		err = runTogether(ctx, r, ofKind(packages, kindRace), o, "-race", "-short")
	case kindUnit:
		err = runTogether(ctx, r, ofKind(packages, kindUnit), o)
	case kindFleet:
		err = runEach(ctx, r, ofKind(packages, kindFleet), o)
	default:
		err = errors.Join(runTogether(ctx, r, ofKind(packages, kindUnit), o), runEach(ctx, r, ofKind(packages, kindFleet), o))
	}
	err = errors.Join(err, r.print(time.Since(begin)))
	if err == nil && r.failed() {
		return errFailed
	}
	return err
}
