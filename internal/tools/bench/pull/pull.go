package pull

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"
	"github.com/flagship-k8s/flagship/internal/tools/bench/scale/figures"
	"github.com/flagship-k8s/flagship/internal/tools/playground"
)

// The members: the control plane writes to the first, the second has an agent.
const push, pull = "member1", "member2"

// Options choose what to measure. All fields are required.
type Options struct {
	// Binary is the flagship binary to start, and AgentBinary the one of the agent.
	Binary, AgentBinary string
	// Objects is how many ConfigMaps are in each member, and Single how many of them are created one a second before the rest, to
	// measure how long each takes.
	Objects, Single int
	// Rest is how long nothing changes before memory is read; the CPU of an idle agent is that of this period.
	Rest time.Duration
	// Log receives the progress.
	Log io.Writer
}

// Result has the figures of the agent, and how long objects took to both members.
type Result struct {
	// RSS is the resident memory in bytes at the end of the rest, Own what of it is no part of a file, and PeakRSS the highest ever.
	RSS     int64 `json:"rssBytes"`
	Own     int64 `json:"anonymousBytes"`
	PeakRSS int64 `json:"peakRSSBytes"`
	// CPU is what all objects took; Idle is the share of a core while nothing changes, in percent.
	CPU  float64 `json:"cpuSeconds"`
	Idle float64 `json:"idleCPUPercent"`
	// Push and Pull are the times from the creation of an object until it is in the member, of all that were created singly.
	Push Latency `json:"push"`
	Pull Latency `json:"pull"`
}

// Latency is the median and the 95th percentile in milliseconds.
type Latency struct {
	P50 float64 `json:"p50Milliseconds"`
	P95 float64 `json:"p95Milliseconds"`
}

// Header has the columns of Rows.
const Header = "FIGURE VALUE"

// Rows is the result as a table.
func (r Result) Rows() [][]string {
	mb := func(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }
	ms := func(l Latency) string { return fmt.Sprintf("p50 %.0f ms, p95 %.0f ms", l.P50, l.P95) }
	return [][]string{
		{"resident memory", mb(r.RSS)},
		{"of it not of files", mb(r.Own)},
		{"peak", mb(r.PeakRSS)},
		{"CPU for all objects", fmt.Sprintf("%.1f s", r.CPU)},
		{"CPU while idle", fmt.Sprintf("%.2f %% of a core", r.Idle)},
		{"to the member in Push mode", ms(r.Push)},
		{"to the member in Pull mode", ms(r.Pull)},
	}
}

// bench is a control plane with a member in each mode.
type bench struct {
	Options
	hub     *fleet.Cluster
	members map[string]*fleet.Cluster
	pid     int // of the agent
}

// Run starts the fleet, replaces the agent of the playground by one of the agent's own binary, and measures it.
func Run(ctx context.Context, o Options) (_ Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := fleet.Start(ctx, o.Binary, 2, o.Log, "--pull", pull)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	b := &bench{Options: o, members: map[string]*fleet.Cluster{}}
	if b.hub, err = fleet.Connect(ctx, f.Hub, false); err != nil {
		return Result{}, err
	}
	defer b.hub.Close()
	if err := fleet.CreateNamespace(ctx, b.hub, nil); err != nil {
		return Result{}, err
	}
	for name, config := range f.Members {
		if b.members[name], err = fleet.Connect(ctx, config, false); err != nil {
			return Result{}, err
		}
		defer b.members[name].Close()
	}
	stop, err := b.startAgent(ctx, f.Dir())
	if err != nil {
		return Result{}, err
	}
	defer stop()
	policy := fleet.Duplicated("pull", fleet.SelectConfigMaps())
	if _, err := b.hub.Dynamic.Resource(fleet.Policies).Namespace(fleet.Namespace).Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return Result{}, fmt.Errorf("creating the policy: %w", err)
	}
	return b.measure(ctx)
}

// startAgent ends the agent of the playground, which is a whole flagship, and runs the agent's own binary with its credential.
func (b *bench) startAgent(ctx context.Context, dir string) (stop func(), err error) {
	members, err := playground.Control(ctx, dir, playground.List, "")
	if err != nil {
		return nil, fmt.Errorf("finding the agent: %w", err)
	}
	i := slices.IndexFunc(members, func(m playground.MemberStatus) bool { return m.Name == pull && m.AgentPID > 0 })
	if i < 0 {
		return nil, fmt.Errorf("%s has no agent", pull)
	}
	if err := syscall.Kill(members[i].AgentPID, syscall.SIGKILL); err != nil {
		return nil, fmt.Errorf("ending the agent of the playground: %w", err)
	}
	cmd := exec.CommandContext(ctx, b.AgentBinary, "agent", pull,
		"--data-dir", playground.AgentDir(dir, pull), "--cluster-kubeconfig", playground.MemberKubeconfig(dir, pull))
	cmd.Stderr = b.Log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the agent: %w", err)
	}
	b.pid = cmd.Process.Pid
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // how it ends is no result
	}, nil
}

func (b *bench) measure(ctx context.Context) (r Result, err error) {
	// The first object takes the start of the agent and of its watches.
	if _, err := b.propagate(ctx, 0); err != nil {
		return r, err
	}
	before, err := fleet.UsageOf(b.pid)
	if err != nil {
		return r, err
	}
	took := map[string][]float64{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := range b.Single {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
		times, err := b.propagate(ctx, i+1)
		if err != nil {
			return r, err
		}
		for name, d := range times {
			took[name] = append(took[name], float64(d.Milliseconds()))
		}
	}
	fmt.Fprintf(b.Log, "  %d objects one by one: done\n", b.Single)
	for i := b.Single + 1; i < b.Objects; i++ {
		if err := b.create(ctx, i); err != nil {
			return r, err
		}
	}
	for name, member := range b.members {
		if err := member.Poll(ctx, "all objects in "+name, func(objects map[string]any) bool {
			return fleet.Count(objects, "configmap", fleet.Anything) >= b.Objects
		}); err != nil {
			return r, err
		}
	}
	fmt.Fprintf(b.Log, "  %d objects: done\n", b.Objects)
	if err := fleet.Pause(ctx, b.Rest); err != nil { // until what the objects caused is over
		return r, err
	}
	after, err := fleet.UsageOf(b.pid)
	if err != nil {
		return r, err
	}
	if err := fleet.Pause(ctx, b.Rest); err != nil {
		return r, err
	}
	end, err := fleet.UsageOf(b.pid)
	if err != nil {
		return r, err
	}
	return Result{
		RSS: end.Rss, Own: end.Own, PeakRSS: end.PeakRSS,
		CPU: (after.Cpu - before.Cpu).Seconds(), Idle: 100 * (end.Cpu - after.Cpu).Seconds() / b.Rest.Seconds(),
		Push: latency(took[push]), Pull: latency(took[pull]),
	}, nil
}

// propagate creates an object and returns how long it took to each member.
func (b *bench) propagate(ctx context.Context, i int) (map[string]time.Duration, error) {
	began := time.Now()
	if err := b.create(ctx, i); err != nil {
		return nil, err
	}
	arrived := map[string]*time.Time{push: {}, pull: {}}
	key := "configmap/" + fleet.Namespace + "/" + fleet.ConfigMapName(i)
	group, ctx := errgroup.WithContext(ctx)
	for name, at := range arrived {
		group.Go(func() (err error) {
			*at, err = b.members[name].Until(ctx, key+" in "+name, func(objects map[string]any) bool { return objects[key] != nil })
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	took := map[string]time.Duration{}
	for name, at := range arrived {
		took[name] = at.Sub(began)
	}
	return took, nil
}

func (b *bench) create(ctx context.Context, i int) error {
	if _, err := b.hub.Kube.CoreV1().ConfigMaps(fleet.Namespace).Create(ctx, fleet.ConfigMap(fleet.ConfigMapName(i)), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a ConfigMap: %w", err)
	}
	return nil
}

// latency is that of times in milliseconds.
func latency(times []float64) Latency {
	return Latency{P50: figures.Quantile(times, .5), P95: figures.Quantile(times, .95)}
}
