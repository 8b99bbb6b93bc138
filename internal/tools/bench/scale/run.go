package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"
	"github.com/flagship-k8s/flagship/internal/tools/bench/scale/figures"
	"github.com/flagship-k8s/flagship/internal/tools/bench/standin"
	"github.com/flagship-k8s/flagship/internal/tools/bench/standin/process"
	"github.com/flagship-k8s/flagship/internal/tools/playground/machine"
)

// Steps are what can be measured, in their order.
var Steps = []string{"join", "idle", "place", "hang", "gone", "restart", "agents", "works"}

// Options choose what to measure.
type Options struct {
	// Binary is the flagship binary to start; normally the running one.
	Binary string
	// Members is how many there are.
	Members int
	// Servers is how many servers the control plane of the members has, on one etcd if there are several. ShardMembers has them share the
	// members.
	Servers      int
	ShardMembers bool
	// Placements is how many objects are placed, each in Targets members, Concurrency at a time.
	Placements, Targets, Concurrency int
	// Hanging and Gone are how many members hang, and are gone, at once.
	Hanging, Gone int
	// Agents is how many agents a control plane without members restarts with, and Works how many Works.
	Agents, Works int
	// Rest is for how long what is at rest is measured.
	Rest time.Duration
	// Steps are those to run, and what they build on. Empty means all.
	Steps []string
	// Timeout bounds one step.
	Timeout time.Duration
	// ProfileDir, if set, receives profiles of the control plane.
	ProfileDir string
	// Dir keeps the data of the control plane while the bench runs; empty means the temporary directory of the system.
	Dir string
	// flags are further ones of the control plane.
	flags []string
	// JSON receives the figures, Out the table, unless they are nil. Log receives the progress.
	JSON, Out, Log io.Writer
}

// oneServer are the steps in which a control plane of one server is started again.
var oneServer = []string{"restart", "agents", "works"}

func (o Options) selects(step string) bool {
	if len(o.Steps) == 0 {
		return o.Servers == 1 || !slices.Contains(oneServer, step)
	}
	return slices.Contains(o.Steps, step)
}

// needs returns whether a step runs: one that is selected, and what it builds on.
func (o Options) needs(step string) bool {
	switch step {
	case "empty":
		return o.selects("idle")
	case "join":
		return true
	}
	return o.selects(step)
}

func (o Options) validate() error {
	for _, step := range o.Steps {
		if !slices.Contains(Steps, step) {
			return fmt.Errorf("there is no step %q", step)
		}
		if o.Servers > 1 && slices.Contains(oneServer, step) {
			return fmt.Errorf("the step %q is measured with one server", step)
		}
	}
	if o.Servers < 1 || o.ShardMembers && o.Servers < 2 {
		return errors.New("there has to be a server, and two that share members")
	}
	if o.Targets > o.Members || o.Hanging > o.Members || o.Gone > o.Members {
		return fmt.Errorf("there are only %d members", o.Members)
	}
	return nil
}

// bench is one run.
type bench struct {
	Options
	figures.Report
	*hub
	// others are the servers besides the hub.
	others   []*hub
	standIns *process.StandIns
	port     int
	base     footprint
	readied  *readiness
	placed   int // how many placements there are
}

// footprint is what a control plane takes at rest.
type footprint struct {
	cpu                   float64 // share of a core
	resident, own, live   float64
	goroutines            float64
	reads, watches, other float64 // requests to members per second
}

// Run measures the steps and prints the figures.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.Dir, "flagship-bench-fleet-")
	if err != nil {
		return fmt.Errorf("creating a data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	logs, err := os.Create(filepath.Join(dir, "hub.log"))
	if err != nil {
		return fmt.Errorf("creating the log of the control plane: %w", err)
	}
	defer func() { _ = logs.Close() }()
	b := &bench{Options: o, Report: figures.Report{Progress: o.Log}}
	ports := machine.NewPortChooser()
	defer ports.Close()
	if b.port, err = ports.Choose(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Print(o.Out, o.JSON)) }()
	alone := []string{"agents", "works"}
	for i, run := range []func(context.Context, string, io.Writer) error{b.agents, b.manyWorks} {
		if !o.selects(alone[i]) {
			continue
		}
		if err := b.step(ctx, alone[i], func(ctx context.Context) error { return run(ctx, filepath.Join(dir, alone[i]), logs) }); err != nil {
			return err
		}
	}
	if len(o.Steps) > 0 && !slices.ContainsFunc(o.Steps, func(step string) bool { return !slices.Contains(alone, step) }) {
		return nil
	}
	return b.withMembers(ctx, filepath.Join(dir, "hub"), ports, logs)
}

// withMembers runs the steps that need members.
func (b *bench) withMembers(ctx context.Context, dir string, ports *machine.PortChooser, logs io.Writer) (err error) {
	fmt.Fprintf(b.Log, "Starting %d servers and %d stand-ins\n", b.Servers, b.Members)
	if b.standIns, err = process.Start(ctx, b.Binary, b.Members, b.Log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.standIns.Stop()) }()
	stop, err := b.serveAll(ctx, dir, ports, logs)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	if err := fleet.CreateNamespace(ctx, &fleet.Cluster{Kube: b.kube}, nil); err != nil {
		return err
	}
	defer func() {
		if b.readied != nil {
			b.readied.stop()
		}
	}()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"empty", b.empty},
		{"join", b.join},
		{"idle", b.idle},
		{"place", b.place},
		{"hang", b.hang},
		{"gone", b.gone},
		{"restart", func(ctx context.Context) error { return b.restart(ctx, dir, logs) }},
	} {
		if !b.needs(step.name) {
			continue
		}
		if err := b.step(ctx, step.name, step.run); err != nil {
			return err
		}
	}
	return nil
}

// step runs a step within the time that it may take.
func (b *bench) step(ctx context.Context, name string, run func(context.Context) error) error {
	fmt.Fprintf(b.Log, "  %s (load of the machine %.1f)\n", name, loadAverage())
	timed, cancel := context.WithTimeoutCause(ctx, b.Timeout, fmt.Errorf("not done within %s", b.Timeout))
	defer cancel()
	var before []fleet.Usage
	if b.Servers > 1 {
		var err error
		if before, err = b.usages(); err != nil {
			return err
		}
	}
	started := time.Now()
	if err := run(timed); err != nil {
		return fmt.Errorf("measuring %s: %w", name, err)
	}
	if b.Servers > 1 {
		if err := b.eachServer(timed, name, before, time.Since(started)); err != nil {
			return err
		}
	}
	b.Add(name, "load of the machine", loadAverage(), "")
	return nil
}

// atRest measures a control plane in which nothing happens.
func (b *bench) atRest(ctx context.Context, step string) (footprint, error) {
	if _, err := b.calm(ctx); err != nil {
		return footprint{}, err
	}
	// What was done before has aftereffects: histories are dropped, memory is returned.
	if err := fleet.Pause(ctx, b.Rest); err != nil {
		return footprint{}, err
	}
	profiled := b.profile(ctx, b.ProfileDir, step)
	// What is measured begins and ends with a collection of garbage: it has the cost of its own garbage, and not of that of the metrics
	// that were read before.
	if _, err := b.live(ctx); err != nil {
		return footprint{}, err
	}
	before, err := b.Usage()
	if err != nil {
		return footprint{}, err
	}
	sent, err := b.standIns.Statistics(ctx)
	if err != nil {
		return footprint{}, err
	}
	started := time.Now()
	if err := fleet.Pause(ctx, b.Rest); err != nil {
		return footprint{}, err
	}
	live, err := b.live(ctx)
	if err != nil {
		return footprint{}, err
	}
	seconds := time.Since(started).Seconds()
	after, err := b.Usage()
	if err != nil {
		return footprint{}, err
	}
	now, err := b.standIns.Statistics(ctx)
	if err != nil {
		return footprint{}, err
	}
	if err := profiled(); err != nil {
		return footprint{}, err
	}
	counted, err := b.metrics(ctx, "go_goroutines")
	if err != nil {
		return footprint{}, err
	}
	rate := func(kind int) float64 { return float64(now.Requests[kind]-sent.Requests[kind]) / seconds }
	return footprint{
		cpu: (after.Cpu - before.Cpu).Seconds() / seconds, resident: float64(after.Rss), own: float64(after.Own), live: live, goroutines: counted["go_goroutines"],
		reads: rate(standin.Reads), watches: rate(standin.Watches), other: rate(standin.Writes) + rate(standin.Documents),
	}, nil
}

// spent returns the CPU seconds and the peak of memory of the control plane since a moment.
func (b *bench) spent(before fleet.Usage) (seconds, peak float64, err error) {
	after, err := b.Usage()
	return (after.Cpu - before.Cpu).Seconds(), float64(after.PeakRSS), err
}
