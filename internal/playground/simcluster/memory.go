package simcluster

import (
	"context"
	"os"
	"runtime/debug"
	"time"
)

const (
	// memoryLimit makes the collector work harder before a member grows beyond what a laptop with several of them
	// can spare. It is soft: a member with much to hold grows on.
	memoryLimit = 400 << 20
	// settleTime is when starting up is over and its garbage can go back to the system.
	settleTime = 5 * time.Second
)

// LimitMemory applies the limit of a simulated cluster to this process, except where the environment sets one.
func LimitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

// returnStartupMemory gives back what parsing schemas and listing everything once has left behind.
func returnStartupMemory(ctx context.Context) {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-timer.C:
		debug.FreeOSMemory()
	case <-ctx.Done():
	}
}
