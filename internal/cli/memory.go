package cli

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// memoryFloor is what a control plane may use before it collects garbage more eagerly: twice what an idle one needs.
	memoryFloor = 288 << 20
	// memoryRoom is what it may use besides one and a half times what is live.
	memoryRoom = 64 << 20
	// startUpEnds is when what was needed only to start is given back.
	startUpEnds = 20 * time.Second
	// memoryLook is how often the limit follows what is live.
	memoryLook = 2 * time.Second
)

// tendMemory keeps the process small without starving it: a soft limit follows what is live, so that a burst of garbage
// does not double the process, while a large fleet gets what it needs. Whoever sets GOMEMLIMIT has decided otherwise.
func tendMemory(ctx context.Context) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	look := time.NewTicker(memoryLook)
	defer look.Stop()
	started := time.After(startUpEnds)
	for {
		metrics.Read(live)
		debug.SetMemoryLimit(max(memoryFloor, int64(live[0].Value.Uint64())*3/2+memoryRoom))
		select {
		case <-look.C:
		case <-started:
			debug.FreeOSMemory()
		case <-ctx.Done():
			return
		}
	}
}
