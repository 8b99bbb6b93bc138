// Package bounded fails a test of an expression or an edit that a tenant wrote if it takes too much time or memory.
package bounded

import (
	"runtime/metrics"
	"syscall"
	"testing"
	"time"
)

// What one run may take, whatever a tenant wrote. The time is that of processors, so that other work of the machine does not count.
const (
	maxTime  = instrumented * 10 * time.Second
	maxBytes = instrumented * 1 << 30
)

// Run runs f, and fails the test if the process has used more than 10 s of processors meanwhile, or allocated more than 1 GiB, also if that
// was freed. With the race detector both are five times as much.
func Run(tb testing.TB, f func()) {
	tb.Helper()
	before, begun := allocated(), used(tb)
	f()
	if took := used(tb) - begun; took > maxTime {
		tb.Errorf("it took %s of processors, more than %s", took, maxTime)
	}
	if bytes := allocated() - before; bytes > maxBytes {
		tb.Errorf("it allocated %d bytes, more than %d", bytes, maxBytes)
	}
}

func used(tb testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func allocated() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}
