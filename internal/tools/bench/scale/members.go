package scale

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
	tools "github.com/flagship-k8s/flagship/internal/tools/bench"
	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"
	"github.com/flagship-k8s/flagship/internal/tools/bench/scale/figures"
	"github.com/flagship-k8s/flagship/internal/tools/bench/standin"
)

const (
	joiners = 16
	// joinTimeout bounds a request of a join to the control plane, on a busy machine.
	joinTimeout = 2 * time.Minute
	mega        = 1e6
	// sample is how many placements show how members that fail affect others.
	sample = 50
)

// empty is a control plane without members, with which the others are compared.
func (b *bench) empty(ctx context.Context) (err error) {
	if b.base, err = b.atRest(ctx, "empty"); err != nil {
		return err
	}
	b.Add("empty", "CPU", b.base.cpu*100, "% of a core")
	b.Add("empty", "resident", b.base.resident/mega, "MB")
	b.Add("empty", "live heap", b.base.live/mega, "MB")
	b.Add("empty", "goroutines", b.base.goroutines, "")
	return nil
}

// join joins all stand-ins at once.
func (b *bench) join(ctx context.Context) (err error) {
	if b.readied, err = b.watchReadiness(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	before, err := b.Usage()
	if err != nil {
		return err
	}
	profiled := b.profile(ctx, b.ProfileDir, "join")
	hub := rest.CopyConfig(b.Hub)
	hub.Timeout = joinTimeout
	began, started := make([]time.Time, b.Members), time.Now()
	err = tools.Parallel(ctx, joiners, b.Members, func(ctx context.Context, i int) error {
		began[i] = time.Now()
		return membership.Join(ctx, hub, b.standIns.Config(i), membership.Options{Name: b.standIns.Members[i].Name})
	})
	if err != nil {
		return err
	}
	if err := until(ctx, "members to be ready", func() (bool, error) { return b.readied.count() == b.Members, nil }); err != nil {
		return err
	}
	took := time.Since(started)
	single := make([]float64, b.Members)
	for i, m := range b.standIns.Members {
		single[i] = b.readied.at(m.Name).Sub(began[i]).Seconds()
	}
	caught, err := b.calm(ctx)
	if err != nil {
		return err
	}
	cpu, _, err := b.spent(before)
	if err == nil {
		err = profiled()
	}
	if err != nil {
		return err
	}
	b.Add("join", fmt.Sprintf("all %d ready", b.Members), took.Seconds(), "s")
	b.Add("join", "all have their namespaces and definitions", caught.Sub(started).Seconds(), "s")
	b.Distribution("join", "one member, from the command to Ready", single)
	b.Add("join", "CPU of the control plane, each", cpu*1000/float64(b.Members), "ms")
	return nil
}

// idle measures what members cost while nothing happens.
func (b *bench) idle(ctx context.Context) error {
	now, err := b.atRest(ctx, "idle")
	if err != nil {
		return err
	}
	statistics, err := b.standIns.Statistics(ctx)
	if err != nil {
		return err
	}
	usage, err := b.standIns.Usage()
	if err != nil {
		return err
	}
	n := float64(b.Members)
	b.Add("idle", "CPU of the control plane", now.cpu*100, "% of a core")
	b.Add("idle", "CPU of the control plane, without that of an empty one", (now.cpu-b.base.cpu)*100, "% of a core")
	b.Add("idle", "resident", now.resident/mega, "MB")
	b.Add("idle", "resident, each member", (now.resident-b.base.resident)/mega/n, "MB")
	b.Add("idle", "live heap, each member", (now.live-b.base.live)/mega/n, "MB")
	b.Add("idle", "goroutines, each member", (now.goroutines-b.base.goroutines)/n, "")
	b.Add("idle", "watches, each member", float64(statistics.Watches)/n, "")
	b.Add("idle", "requests to members: reads", now.reads, "/s")
	b.Add("idle", "requests to members: watches that begin", now.watches, "/s")
	b.Add("idle", "requests to members: health, version and discovery, writes", now.other, "/s")
	b.Add("idle", "a stand-in, resident", float64(usage.Rss)/1000/n, "kB")
	return nil
}

// targets are the members of a placement: the same in every run.
func (b *bench) targets(placement int) []int {
	return rand.New(rand.NewPCG(1, uint64(placement))).Perm(b.Members)[:b.Targets] //nolint:gosec // Not a secret.
}

// placement is how long one object took, in seconds: until each member had it.
type placement map[int]float64

// all is how long it took until the last of the members had it; without those that are excepted.
func (p placement) all(except func(member int) bool) (last float64) {
	for member, seconds := range p {
		if !except(member) {
			last = max(last, seconds)
		}
	}
	return last
}

// placeSome places a number of new objects, a few at a time, and waits for each until all of its members but the excepted have it.
func (b *bench) placeSome(ctx context.Context, count int, except func(member int) bool) ([]placement, error) {
	first := b.placed
	b.placed += count
	results, progress := make([]placement, count), progress{log: b.Log, total: count}
	err := tools.Parallel(ctx, b.Concurrency, count, func(ctx context.Context, i int) (err error) {
		results[i], err = b.placeOne(ctx, first+i, except)
		progress.done()
		return err
	})
	return results, err
}

func (b *bench) placeOne(ctx context.Context, i int, except func(member int) bool) (placement, error) {
	name, targets := fmt.Sprintf("placed-%05d", i), b.targets(i)
	names, wanted := make([]any, len(targets)), 0
	for n, target := range targets {
		names[n] = b.standIns.Members[target].Name
		if !except(target) {
			wanted++
		}
	}
	policy := fleet.Duplicated(name, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": name})
	if err := unstructured.SetNestedSlice(policy.Object, names, "spec", "placement", "clusterAffinity", "clusterNames"); err != nil {
		return nil, fmt.Errorf("building the policy: %w", err)
	}
	started := time.Now()
	if _, err := b.dynamic.Resource(fleet.Policies).Namespace(fleet.Namespace).Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating policy %s: %w", name, err)
	}
	if _, err := b.kube.CoreV1().ConfigMaps(fleet.Namespace).Create(ctx, fleet.ConfigMap(name), metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating configmap %s: %w", name, err)
	}
	result := placement{}
	err := until(ctx, name+" in its members", func() (bool, error) {
		arrived, err := b.standIns.Arrivals(ctx, "configmaps.v1.", fleet.Namespace, name)
		there := 0
		for member, at := range arrived {
			result[member] = at.Sub(started).Seconds()
			if !except(member) {
				there++
			}
		}
		return there == wanted, err
	})
	return result, err
}

func noMember(int) bool { return false }

// place places all objects.
func (b *bench) place(ctx context.Context) error {
	before, err := b.Usage()
	if err != nil {
		return err
	}
	counted, err := b.countWrites(ctx)
	if err != nil {
		return err
	}
	profiled, started := b.profile(ctx, b.ProfileDir, "place"), time.Now()
	results, err := b.placeSome(ctx, b.Placements, noMember)
	if err != nil {
		return err
	}
	took := time.Since(started)
	if err := profiled(); err != nil {
		return err
	}
	if _, err := b.calm(ctx); err != nil {
		return err
	}
	cpu, peak, err := b.spent(before)
	if err != nil {
		return err
	}
	writes, err := b.countWrites(ctx)
	if err != nil {
		return err
	}
	var whole, each []float64
	for _, result := range results {
		whole = append(whole, result.all(noMember))
		for _, seconds := range result {
			each = append(each, seconds)
		}
	}
	objects := float64(b.Placements * b.Targets)
	b.Add("place", fmt.Sprintf("%d placements to %d members each, %d at a time", b.Placements, b.Targets, b.Concurrency), took.Seconds(), "s")
	b.Distribution("place", "one placement, from apply to all its members", whole)
	b.Distribution("place", "one member of a placement", each)
	b.Add("place", "CPU of the control plane, each object in a member", cpu*1000/objects, "ms")
	b.Add("place", "writes, each object in a member", writes.Since(counted).Total()/objects, "")
	b.Add("place", "peak resident", peak/mega, "MB")
	return nil
}

// beside measures placements before and while some members fail, in the other members.
func (b *bench) beside(ctx context.Context, step string, mode standin.Mode, count int, failed func(context.Context) error) error {
	except := func(member int) bool { return member < count }
	// All samples are of the same members, though the others are well before.
	var p95 []float64
	measure := func(when string) error {
		usage, err := b.Usage()
		if err != nil {
			return err
		}
		results, err := b.placeSome(ctx, min(sample, b.Placements), except)
		if err != nil {
			return err
		}
		cpu, _, err := b.spent(usage)
		if err != nil {
			return err
		}
		var each []float64
		for _, result := range results {
			for member, seconds := range result {
				if !except(member) {
					each = append(each, seconds)
				}
			}
		}
		p95 = append(p95, figures.Quantile(each, .95))
		b.Distribution(step, "another member of a placement, "+when, each)
		b.Add(step, "CPU of the control plane, each object in another member, "+when, cpu*1000/float64(len(each)), "ms")
		return nil
	}
	if err := measure("before"); err != nil {
		return err
	}
	if _, err := b.calm(ctx); err != nil {
		return err
	}
	if err := b.standIns.Set(ctx, mode, 0, count); err != nil {
		return err
	}
	if err := measure(fmt.Sprintf("as %d begin to fail", count)); err != nil {
		return err
	}
	if err := failed(ctx); err != nil {
		return err
	}
	if err := measure(fmt.Sprintf("while %d fail", count)); err != nil {
		return err
	}
	b.Add(step, "p95 of another member, as they begin to fail, to that before", p95[1]/p95[0], "")
	b.Add(step, "p95 of another member, while they fail, to that before", p95[2]/p95[0], "")
	started := time.Now()
	if err := b.standIns.Set(ctx, standin.Healthy, 0, count); err != nil {
		return err
	}
	if err := until(ctx, "all members to be ready", func() (bool, error) { return b.readied.count() == b.Members, nil }); err != nil {
		return err
	}
	b.Add(step, "from their return until all are Ready", time.Since(started).Seconds(), "s")
	caught, err := b.calm(ctx)
	if err != nil {
		return err
	}
	b.Add(step, "from their return until all have caught up", caught.Sub(started).Seconds(), "s")
	return nil
}

// unready waits until a number of members is not ready, and measures what that takes.
func (b *bench) unready(step string, count int) func(context.Context) error {
	return func(ctx context.Context) error {
		started := time.Now()
		before, err := b.Usage()
		if err != nil {
			return err
		}
		if err := until(ctx, "members not to be ready", func() (bool, error) { return b.readied.count() == b.Members-count, nil }); err != nil {
			return err
		}
		// Everything that follows from it is written within this time.
		if err := fleet.Pause(ctx, b.Rest); err != nil {
			return err
		}
		cpu, _, err := b.spent(before)
		if err != nil {
			return err
		}
		b.Add(step, "CPU of the control plane until it is known, and after", cpu*100/time.Since(started).Seconds(), "% of a core")
		return nil
	}
}

func (b *bench) hang(ctx context.Context) error {
	return b.beside(ctx, "hang", standin.Hanging, b.Hanging, b.unready("hang", b.Hanging))
}

func (b *bench) gone(ctx context.Context) error {
	return b.beside(ctx, "gone", standin.Gone, b.Gone, b.unready("gone", b.Gone))
}

// restarted ends the control plane, starts it again on the same storage, and returns when it was started. It is ready then.
func (b *bench) restarted(ctx context.Context, dir string, logs io.Writer) (time.Time, error) {
	if err := b.hub.End(); err != nil {
		return time.Time{}, fmt.Errorf("stopping the control plane: %w", err)
	}
	started := time.Now()
	fresh, err := serve(context.WithoutCancel(ctx), b.Options, dir, b.port, logs)
	if err != nil {
		return time.Time{}, err
	}
	b.hub = fresh
	return started, nil
}

// compacted waits until the history of everything that was written is compacted, which takes up to ten minutes. Its size depends on how
// the objects came about, and the database file, which is in memory as a whole, has twice its size with it.
func (b *bench) compacted(ctx context.Context) error {
	const current, compact, ended = "etcd_debugging_mvcc_current_revision", "etcd_debugging_mvcc_compact_revision", "etcd_debugging_mvcc_db_compaction_last"
	before, err := b.metrics(ctx, current, ended)
	if err != nil {
		return err
	}
	// A compaction of before may end meanwhile, so that its end alone does not count.
	return every(ctx, 5*time.Second, "the history to be compacted", func() (bool, error) {
		now, err := b.metrics(ctx, compact, ended)
		if now[compact] < before[current] {
			before[ended] = now[ended]
			return false, err
		}
		return now[ended] > before[ended], err
	})
}

// restart restarts the control plane, with all Works in place and their history compacted.
func (b *bench) restart(ctx context.Context, dir string, logs io.Writer) error {
	count, err := b.countWorks(ctx)
	if err != nil {
		return err
	}
	if err := b.compacted(ctx); err != nil {
		return err
	}
	sent, err := b.standIns.Statistics(ctx)
	if err != nil {
		return err
	}
	b.readied.stop()
	started, err := b.restarted(ctx, dir, logs)
	if err != nil {
		return err
	}
	ready := time.Since(started)
	profiled := b.profile(ctx, b.ProfileDir, "restart")
	err = until(ctx, "the watches of members", func() (bool, error) {
		now, err := b.standIns.Statistics(ctx)
		return now.Watches >= sent.Watches, err
	})
	if err != nil {
		return err
	}
	caught, err := b.calm(ctx)
	if err != nil {
		return err
	}
	usage, err := b.Usage()
	if err != nil {
		return err
	}
	if err := profiled(); err != nil {
		return err
	}
	now, err := b.standIns.Statistics(ctx)
	if err != nil {
		return err
	}
	writes, err := b.countWrites(ctx)
	if err != nil {
		return err
	}
	b.Add("restart", "works", float64(count), "")
	b.Add("restart", "ready", ready.Seconds(), "s")
	b.Add("restart", "all watches of members run and no queue has work", caught.Sub(started).Seconds(), "s")
	b.Add("restart", "CPU until then", usage.Cpu.Seconds(), "s")
	b.Add("restart", "writes to members", float64(now.Requests[standin.Writes]-sent.Requests[standin.Writes]), "")
	for what, n := range now.Written {
		if more := n - sent.Written[what]; more > 0 {
			b.Add("restart", "writes to members: "+what, float64(more), "")
		}
	}
	for _, kind := range writes.Rows() {
		b.Add("restart", "writes to the control plane: "+kind, writes[kind], "")
	}
	b.Add("restart", "peak resident", float64(usage.PeakRSS)/mega, "MB")
	return b.firstPlacement(ctx, dir, logs)
}

// firstPlacement restarts the control plane once more, and creates an object as soon as it is ready: what was there before the restart is to
// wait for what a user does after it. It is a restart of its own, since it writes.
func (b *bench) firstPlacement(ctx context.Context, dir string, logs io.Writer) error {
	if _, err := b.restarted(ctx, dir, logs); err != nil {
		return err
	}
	results, err := b.placeSome(ctx, 1, noMember)
	if err != nil {
		return err
	}
	first := math.Inf(1)
	for _, seconds := range results[0] {
		first = min(first, seconds)
	}
	b.Add("restart", "the first new object, from apply to its first member", first, "s")
	b.Add("restart", "the first new object, from apply to all its members", results[0].all(noMember), "s")
	return nil
}

// progress prints how many of many are done, ten times.
type progress struct {
	log   io.Writer
	total int

	mu sync.Mutex
	n  int
}

func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	if p.total >= 10 && p.n%(p.total/10) == 0 {
		fmt.Fprintf(p.log, "    %d of %d\n", p.n, p.total)
	}
}
