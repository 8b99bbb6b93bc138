package memory

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// idleHeap and busyHeap are what the heap may grow to before garbage is collected, unless more than that is live. An
	// idle control plane has 100 MB that live. A busy one allocates 300 MB a second: at twice what is live, two fifths of
	// its time went into collecting.
	idleHeap = 160 << 20
	busyHeap = 230 << 20
	// The shares are by how much, in percent, the heap may outgrow usualLive when that is more. What has been busy for
	// longAfter, idle time taken off, is no burst and gets the memory that it needs to be quick. With more that is live
	// the heap may outgrow it by more, but only by the square root: objects that last end up all over the memory that a
	// burst took, so that none of it can be given back.
	usualLive = 110 << 20
	idleShare = 40
	busyShare = 75
	longShare = 100
	longAfter = 12 * time.Second
	// What has been busy for longAfter may outgrow what is live by at least largeShare, as long as that is not more than largeGrowth. With
	// 1 GB that is live, as of 1,000 members, the square root leaves so little that a third of the CPU time goes into collecting.
	largeShare  = 60
	largeGrowth = 500 << 20
	// busyRate is how much a busy process allocates in a second.
	busyRate = 24 << 20
	// busyLasts is how long after the last busy moment a process counts as idle. What is free then is given back, and once more after
	// historyLasts: a watch cache keeps the events of a burst for up to three minutes (internal/host/apiserver/storage).
	busyLasts, historyLasts = 10 * time.Second, 190 * time.Second
	// startLasts is how long a start is no burst. Nearly all that it allocates is garbage at once, and the heap keeps the size to which it grows.
	startLasts = 4 * time.Second
	// maxPercent bounds the ratio: it holds until the next look, and a process that starts has many times as much that is live by then.
	maxPercent = 300
	// memoryLook is how often the goal follows what happens; it must be short enough to react to the beginning of a burst.
	memoryLook = 250 * time.Millisecond
)

// Adapt keeps the process small without starving it: how eagerly garbage is collected follows how much is going on,
// and what a burst took is given back after it, until the context ends or stop is called, which waits for the end. Whoever sets GOGC or
// GOMEMLIMIT has decided otherwise. A cgroup with a limit gives the process one, and Short says when it is near.
func Adapt(ctx context.Context) (stop func()) {
	return start(ctx, func(ctx context.Context) { adapt(ctx, memoryLook, busyRate, growth) })
}

const (
	// smallShare is by how much, in percent, the heap of a small process may outgrow what is live.
	smallShare = 50
	// smallLook and smallRate are memoryLook and busyRate of a small process. It is idle most of the time, so that the end of a burst may be
	// seen late, and an idle agent allocates less than a tenth of that rate.
	smallLook = 2 * time.Second
	smallRate = 1 << 20
)

// KeepSmall has garbage collected early, in a process that is idle most of the time and shares its machine: an agent. What a burst took is
// given back after it, until the context ends or stop is called, which waits for the end. Whoever sets GOGC or GOMEMLIMIT has decided
// otherwise.
func KeepSmall(ctx context.Context) (stop func()) {
	return start(ctx, func(ctx context.Context) {
		adapt(ctx, smallLook, smallRate, func(live int64, _, _ bool) int64 { return live * smallShare / 100 })
	})
}

func start(ctx context.Context, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// adapt reads every period what happens, and lets the heap outgrow what is live by as much as growth returns for it, in bytes. A process that
// allocates more than rate, in bytes a second, is busy.
func adapt(ctx context.Context, period time.Duration, rate float64, growth func(live int64, busy, long bool) int64) {
	limit := setLimit(os.DirFS("/"))
	decided := os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != ""
	if decided && limit >= noLimit {
		return
	}
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}
	value := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	read := func() (live, allocated, roots int64) {
		metrics.Read(samples)
		return value(0), value(1), value(2) + value(3)
	}
	look := time.NewTicker(period)
	defer look.Stop()
	began := time.Now()
	lastBusy, percent := began, 0
	due := []time.Duration{busyLasts, historyLasts} // when memory is given back, after the last busy moment
	toRelease := due
	var busyFor time.Duration
	_, before, _ := read()
	for {
		live, allocated, roots := read()
		short.Store(live+roots > limit/100*shortShare)
		if float64(allocated-before) > rate*period.Seconds() {
			lastBusy, toRelease = time.Now(), due
			busyFor = min(busyFor+period, 2*longAfter)
		} else {
			busyFor = max(busyFor-period, 0)
		}
		before = allocated
		busy := time.Since(lastBusy) < busyLasts && time.Since(began) > startLasts
		// Changing the ratio stops the world for a moment, so small differences do not count.
		if want := percentOf(growth(live, busy, busyFor > longAfter), live+roots); !decided && (want < percent*9/10 || want > percent*11/10) {
			percent = want
			debug.SetGCPercent(percent)
		}
		if !decided && len(toRelease) > 0 && time.Since(lastBusy) >= toRelease[0] {
			toRelease = toRelease[1:]
			debug.FreeOSMemory()
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// percentOf is the ratio that lets a heap outgrow what is live by growth: the runtime takes it of what it scans, which is the stacks and the
// global variables, too.
func percentOf(growth, scanned int64) int {
	return int(min(growth*100/max(scanned, 1<<20), maxPercent))
}

// growth is by how many bytes the heap may outgrow what is live before garbage is collected.
func growth(live int64, busy, long bool) int64 {
	heap, share := int64(idleHeap), idleShare
	switch {
	case busy && long:
		heap, share = busyHeap, longShare
	case busy:
		heap, share = busyHeap, busyShare
	}
	if live > usualLive {
		share = int(float64(share) * math.Sqrt(float64(usualLive)/float64(live)))
		if busy && long {
			share = max(share, min(largeShare, int(largeGrowth*100/live)))
		}
	}
	return max(live*int64(share)/100, heap-live)
}
