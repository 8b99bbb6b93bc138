package cli

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// idleFloor and busyFloor are how much a control plane may use before garbage is collected eagerly. An idle one has
	// 120 MB that live. A busy one allocates 300 MB a second, and what it may not use for garbage it pays for in CPU: with
	// idleFloor alone, two fifths of the time went into collecting.
	idleFloor = 272 << 20
	busyFloor = 420 << 20
	// busyRate is how much a busy process allocates in a second.
	busyRate = 24 << 20
	// startUpEnds is when what was needed only to start is given back.
	startUpEnds = 20 * time.Second
	// memoryLook is how often the limit follows what happens; it must see the beginning of a burst.
	memoryLook = 250 * time.Millisecond
	// busyLasts is how long after the last busy moment a process is idle.
	busyLasts = 10 * time.Second
	// roomyGC has the limit decide when to collect, rather than the ratio to what is live.
	roomyGC = 300
)

// tendMemory keeps the process small without starving it: a soft limit follows what is live and how much is going on, so
// that a burst does not double the process, and what it took is given back afterwards. Whoever sets GOMEMLIMIT has decided
// otherwise.
func tendMemory(ctx context.Context) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(roomyGC)
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	read := func() (live, allocated int64) {
		metrics.Read(samples)
		return int64(samples[0].Value.Uint64()), int64(samples[1].Value.Uint64())
	}
	look := time.NewTicker(memoryLook)
	defer look.Stop()
	_, before := read()
	lastBusy, wasBusy := time.Now().Add(startUpEnds-busyLasts), true
	for {
		live, allocated := read()
		now := time.Now()
		if (allocated-before)*int64(time.Second/memoryLook) > busyRate && now.After(lastBusy) {
			lastBusy = now
		}
		before = allocated
		busy := now.Sub(lastBusy) < busyLasts
		debug.SetMemoryLimit(memoryLimit(live, busy))
		if wasBusy && !busy {
			debug.FreeOSMemory()
		}
		wasBusy = busy
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// memoryLimit is how much the process may use while so many bytes are live. Large fleets are above both floors.
func memoryLimit(live int64, busy bool) int64 {
	if busy {
		return max(busyFloor, live+live/2+96<<20)
	}
	return max(idleFloor, live+live/2+48<<20)
}
