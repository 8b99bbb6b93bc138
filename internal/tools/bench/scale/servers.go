package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/flagship-k8s/flagship/internal/tools/bench/etcd"
	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"
	"github.com/flagship-k8s/flagship/internal/tools/playground/machine"
)

// serveAll starts all servers of the control plane: one with its own etcd, or several on one that is a process of its own. The bench sends
// its requests to the first one.
func (b *bench) serveAll(ctx context.Context, dir string, ports *machine.PortChooser, logs io.Writer) (stop func() error, err error) {
	var running []func() error
	stop = func() (err error) {
		for i := range running {
			err = errors.Join(err, running[len(running)-1-i]())
		}
		return err
	}
	if b.Servers > 1 {
		storage, err := etcd.Start(ctx, b.Binary, filepath.Join(filepath.Dir(dir), "etcd"), logs)
		if err != nil {
			return stop, err
		}
		running, b.flags = append(running, storage.Stop), []string{"--etcd-servers", storage.URL}
		if b.ShardMembers {
			b.flags = append(b.flags, "--shard-members")
		}
	}
	if b.hub, err = serve(ctx, b.Options, dir, b.port, logs); err != nil {
		return stop, err
	}
	running = append(running, func() error { return b.hub.End() }) // a step may have started it again
	for i := 1; i < b.Servers; i++ {
		port, err := ports.Choose()
		if err != nil {
			return stop, err
		}
		f, err := fleet.ServeAlso(ctx, b.Binary, b.hub.Fleet, dir+strconv.Itoa(i+1), port, logs, b.serverFlags()...)
		if err != nil {
			return stop, err
		}
		other, err := newHub(f)
		if err != nil {
			return stop, err
		}
		running, b.others = append(running, f.End), append(b.others, other)
	}
	return stop, nil
}

// servers are all of them, that of the requests first.
func (b *bench) servers() []*hub { return append([]*hub{b.hub}, b.others...) }

// Usage is what all servers have consumed since they started. The peak is the sum of their peaks.
func (b *bench) Usage() (sum fleet.Usage, err error) {
	each, err := b.usages()
	for _, u := range each {
		sum.Cpu, sum.Rss, sum.Own, sum.PeakRSS = sum.Cpu+u.Cpu, sum.Rss+u.Rss, sum.Own+u.Own, sum.PeakRSS+u.PeakRSS
	}
	return sum, err
}

func (b *bench) usages() (each []fleet.Usage, err error) {
	for _, s := range b.servers() {
		u, err := s.Usage()
		if err != nil {
			return nil, err
		}
		each = append(each, u)
	}
	return each, nil
}

// metrics adds up the samples of some metrics of all servers.
func (b *bench) metrics(ctx context.Context, names ...string) (map[string]float64, error) {
	sum := map[string]float64{}
	for _, s := range b.servers() {
		found, err := s.metrics(ctx, names...)
		if err != nil {
			return nil, err
		}
		for name, value := range found {
			sum[name] += value
		}
	}
	return sum, nil
}

// live is the heap of all servers after a collection of garbage.
func (b *bench) live(ctx context.Context) (sum float64, err error) {
	for _, s := range b.servers() {
		bytes, err := s.live(ctx)
		if err != nil {
			return 0, err
		}
		sum += bytes
	}
	return sum, nil
}

// countWrites adds up the writes that all servers counted.
func (b *bench) countWrites(ctx context.Context) (fleet.Writes, error) {
	sum := fleet.Writes{}
	for _, s := range b.servers() {
		counted, err := fleet.CountWrites(ctx, s.kube)
		if err != nil {
			return nil, err
		}
		for kind, n := range counted {
			sum[kind] += n
		}
	}
	return sum, nil
}

// connected is a line of the metrics for each member that a server is connected to.
var connected = regexp.MustCompile(`(?m)^flagship_member_reachable\{cluster=`)

// eachServer adds what each of several servers has consumed in a step.
func (b *bench) eachServer(ctx context.Context, step string, before []fleet.Usage, took time.Duration) error {
	after, err := b.usages()
	if err != nil {
		return err
	}
	for i, s := range b.servers() {
		text, err := s.raw(ctx, "/metrics")
		if err != nil {
			return err
		}
		name := fmt.Sprintf("server %d: ", i+1)
		cpu := (after[i].Cpu - before[i].Cpu).Seconds()
		b.Add(step, name+"members", float64(len(connected.FindAll(text, -1))), "")
		b.Add(step, name+"CPU", cpu, "s")
		b.Add(step, name+"CPU, of the time of the step", cpu*100/took.Seconds(), "% of a core")
		b.Add(step, name+"resident", float64(after[i].Rss)/mega, "MB")
		b.Add(step, name+"peak resident", float64(after[i].PeakRSS)/mega, "MB")
	}
	return nil
}
