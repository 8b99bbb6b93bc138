package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// withoutDebugInformation has the linker leave out what only a debugger reads, which takes a quarter of its time: 19 to 13 s of processor
// time for a test binary with an API server. Stacks have their names and lines without it.
const withoutDebugInformation = "-ldflags=-s -w"

// runTogether runs packages with one go test, which takes results from its cache where nothing changed. The linters include go vet.
func runTogether(ctx context.Context, r *report, packages []testPackage, o options, flags ...string) error {
	if len(packages) == 0 {
		return nil
	}
	args := append([]string{"test", "-json", "-vet=off", withoutDebugInformation, "-timeout=" + o.timeout.String(), "-run=" + o.run}, flags...)
	cmd := exec.Command("go", append(args, paths(packages)...)...)
	return r.follow(ctx, cmd, "")
}

// runEach compiles packages and then runs the binaries, jobs at a time. Those with most tests begin first.
func runEach(ctx context.Context, r *report, packages []testPackage, o options) error {
	dir, err := os.MkdirTemp("", "suite-")
	if err != nil {
		return fmt.Errorf("making a directory for the test binaries: %w", err)
	}
	defer os.RemoveAll(dir)
	begin := time.Now()
	if err := compile(ctx, dir, packages); err != nil {
		return err
	}
	r.say("compiled %d packages with servers in %s", len(packages), time.Since(begin).Round(time.Second))
	converter, err := output(ctx, "go", "tool", "-n", "test2json")
	if err != nil {
		return err
	}
	slices.SortStableFunc(packages, func(a, b testPackage) int { return size(b) - size(a) })
	var group errgroup.Group
	group.SetLimit(o.jobs)
	for _, p := range packages {
		group.Go(func() error {
			cmd := exec.Command(strings.TrimSpace(string(converter)), "-t", "-p", p.path, binary(dir, p),
				"-test.v=test2json", "-test.timeout="+o.timeout.String(), "-test.run="+o.run)
			cmd.Dir = p.dir
			return r.follow(ctx, cmd, p.path)
		})
	}
	return group.Wait()
}

// compile builds the test binaries. go test names a binary after the last part of the path and refuses two of one name in one directory.
func compile(ctx context.Context, dir string, packages []testPackage) error {
	for left := packages; len(left) > 0; {
		var now, later []testPackage
		for _, p := range left {
			if slices.ContainsFunc(now, func(other testPackage) bool { return path.Base(other.path) == path.Base(p.path) }) {
				later = append(later, p)
			} else {
				now = append(now, p)
			}
		}
		built := filepath.Join(dir, "built") + string(filepath.Separator)
		if _, err := output(ctx, "go", append([]string{"test", "-c", "-vet=off", withoutDebugInformation, "-o", built}, paths(now)...)...); err != nil {
			return err
		}
		for _, p := range now {
			from, to := filepath.Join(built, path.Base(p.path)+".test"), binary(dir, p)
			if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.Rename(from, to)); err != nil {
				return fmt.Errorf("keeping the test binary of %s: %w", p.path, err)
			}
		}
		left = later
	}
	return nil
}

// binary is where the test binary of a package is. It has the name that go test gives it: clients take it for that of a field manager.
func binary(dir string, p testPackage) string {
	return filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(p.path, module+"/")), path.Base(p.path)+".test")
}

// size is how many tests the files of a package declare, for the order in which packages run: what is not there counts as nothing.
func size(p testPackage) int {
	files, _ := filepath.Glob(filepath.Join(p.dir, "*_test.go")) // the pattern is constant
	n := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err == nil {
			n += bytes.Count(content, []byte("\nfunc Test"))
		}
	}
	return n
}

func paths(packages []testPackage) []string {
	out := make([]string, len(packages))
	for i, p := range packages {
		out[i] = p.path
	}
	return out
}

// follow runs a command that prints test events and reports them. pkg is the package if it is one. The command and what it starts are a
// process group, so that all of it ends with the context.
func (r *report) follow(ctx context.Context, cmd *exec.Cmd, pkg string) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var problems bytes.Buffer
	cmd.Stderr = &problems
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("starting the tests: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	err = r.read(events)
	ended := cmd.Wait()
	if pkg != "" {
		r.used(pkg, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	} else {
		r.usedTogether(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: %w", ctx.Err())
	case err != nil:
		return err
	case ended != nil && !r.failed(): // else the report has the reason
		return errors.Join(fmt.Errorf("running the tests: %w", ended), errors.New(problems.String()))
	}
	return nil
}
