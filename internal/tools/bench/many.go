package bench

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	manyWorks = 10_000
	// Calm is how long nothing happens before memory is measured: what a burst took is given back by then.
	Calm = 30 * time.Second
	// longCalm is when the history of what happened is let go as well.
	longCalm = 3 * time.Minute
)

// Memory is what a number of Works in one member takes in the hub's process, API server and storage included: before any
// Work, with all of them a while after the last was applied, after all of them were deleted, and three minutes later.
type Memory struct {
	Before, With, After, Later Held
}

// Held is what the hub's process holds. Sizes are bytes.
type Held struct {
	// Resident is all its memory, Files the part of it that is files, foremost etcd's: the kernel takes that back when it
	// needs it.
	Resident, Files int64
	// Live is what is left of the heap after garbage was collected. It is 0 right after the deletion, where it is not read: a profile of the
	// heap allocates 100 MB, a part of which would be resident three minutes later.
	Live int64
}

func runMany(ctx context.Context, o Options) (Result, error) {
	results, err := onFleet(ctx, o, 1, func(s *Stand) []scenario {
		return []scenario{{true, func(ctx context.Context) (Result, error) { return s.many(ctx, manyWorks, o.ProfileDir) }}}
	})
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

// many is scenario (f): n objects under one policy in one member, which stay a while and go again. Given a directory, it keeps heap profiles
// of the time when all are there, and of the end.
func (s *Stand) many(ctx context.Context, n int, profiles string) (Result, error) {
	memory := &Memory{}
	var err error
	if memory.Before, err = s.heldAndLive(ctx, Calm); err != nil {
		return Result{}, err
	}
	p, err := s.begin(ctx, fmt.Sprintf("(f) %d ConfigMaps in one member", n), n)
	if err != nil {
		return Result{}, err
	}
	if err := s.createConfigMaps(ctx, n); err != nil {
		return Result{}, err
	}
	for _, m := range s.far {
		if err := m.Poll(ctx, "configmaps", func(o map[string]any) bool { return fleet.Count(o, "configmap", ofBench) >= n }); err != nil {
			return Result{}, err
		}
	}
	p.result.InMembers = p.seconds(time.Now())
	if err := s.Top.Poll(ctx, "works to be applied", func(o map[string]any) bool { return fleet.Count(o, "work", fleet.WorkApplied) >= n }); err != nil {
		return Result{}, err
	}
	p.result.Applied = p.seconds(time.Now())
	result, err := p.end(ctx, 1)
	if err != nil {
		return Result{}, err
	}
	if memory.With, err = s.heldAndLive(ctx, Calm); err != nil {
		return Result{}, err
	}
	profile := func(name string) error {
		if profiles == "" {
			return nil
		}
		return s.Top.FetchProfile(ctx, fleet.HeapProfile, filepath.Join(profiles, name))
	}
	if err := profile("heap-many.pprof"); err != nil {
		return Result{}, err
	}
	// One by one: a deletion of all in one request takes longer than a request may.
	err = Parallel(ctx, 10, n, func(ctx context.Context, i int) error {
		return s.Top.Kube.CoreV1().ConfigMaps(fleet.Namespace).Delete(ctx, fleet.ConfigMapName(i), metav1.DeleteOptions{})
	})
	if err != nil {
		return Result{}, fmt.Errorf("deleting configmaps: %w", err)
	}
	err = s.Top.Poll(ctx, "works to go", func(o map[string]any) bool {
		return fleet.Count(o, "work", func(obj any) bool { return named(obj, "config-") }) == 0
	})
	if err != nil {
		return Result{}, err
	}
	if memory.After, err = s.held(ctx, Calm); err != nil {
		return Result{}, err
	}
	if memory.Later, err = s.heldAndLive(ctx, longCalm); err != nil {
		return Result{}, err
	}
	result.Memory = memory
	return result, profile("heap-gone.pprof")
}

func ofBench(obj any) bool { return named(obj, "config-") }

// heldAndLive is what the hub holds after a while of calm, and what of it is alive.
func (s *Stand) heldAndLive(ctx context.Context, calm time.Duration) (Held, error) {
	h, err := s.held(ctx, calm)
	if err != nil {
		return Held{}, err
	}
	kept, err := s.Heap(ctx)
	h.Live = kept.Live
	return h, err
}

// held is what the hub holds after a while of calm, without what is alive.
func (s *Stand) held(ctx context.Context, calm time.Duration) (Held, error) {
	timer := time.NewTimer(calm)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return Held{}, context.Cause(ctx)
	}
	u, err := s.Usage()
	return Held{Resident: u.Rss, Files: u.Rss - u.Own}, err
}

func printMemory(out io.Writer, results []Result) {
	for _, r := range results {
		if m := r.Memory; m != nil {
			fmt.Fprintf(out, "\nMemory, %s, in MB:\n", r.Name)
			each := func(f func(Held) int64) float64 { return float64(f(m.With)-f(m.Before)) / float64(r.Objects) / 1e3 }
			for _, row := range []struct {
				what string
				of   func(Held) int64
			}{
				{"resident", func(h Held) int64 { return h.Resident }},
				{"of it files", func(h Held) int64 { return h.Files }},
				{"live heap", func(h Held) int64 { return h.Live }},
			} {
				after := "-"
				if of := row.of(m.After); of > 0 {
					after = strconv.FormatInt(of/1e6, 10)
				}
				fmt.Fprintf(out, "  %-12s %6d before, %6d with all of them (%.1f kB each), %6s after their deletion, %6d three minutes later\n",
					row.what, row.of(m.Before)/1e6, row.of(m.With)/1e6, each(row.of), after, row.of(m.Later)/1e6)
			}
		}
	}
}
