// Package speed measures how fast the machine is while something else is measured on it.
//
// Where other machines share the processors, the same work takes up to twice the CPU time, and that changes within minutes. The CPU time of a
// fixed piece of work that runs beside what is measured shows it. It varies by a fifth itself, so that means of several rounds compare, each divided by
// the mean of the fixed work.
package speed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// pause is the time between two pieces of work: each takes a millisecond, so that all of them take one or two percent of a processor.
	pause = 50 * time.Millisecond
	// repeated is how often the object is decoded and encoded in a piece of work.
	repeated = 60
	// left out are the shortest and the longest pieces, one of so many each: what an interrupt or a cold cache costs.
	leftOut = 20
)

// object is what is decoded and encoded: most of what a control plane does.
const object = `{"metadata":{"name":"web","labels":{"app":"web","tier":"front"},"annotations":{"note":"kept"}},"spec":{"replicas":2,"template":` +
	`{"spec":{"containers":[{"name":"nginx","image":"nginx:1.27","resources":{"requests":{"cpu":"10m"}}}]}}}}`

// Measure begins to do the fixed work from time to time. The returned function ends that, and returns the CPU time of a piece of work on average:
// the less, the faster the machine. It returns zero where the system does not count the CPU time of threads.
func Measure() (end func() time.Duration) {
	ending := make(chan struct{})
	var pieces []time.Duration
	var running sync.WaitGroup
	running.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		next := time.NewTicker(pause)
		defer next.Stop()
		for {
			select {
			case <-ending:
				return
			case <-next.C:
				if took, err := piece(); err == nil {
					pieces = append(pieces, took)
				}
			}
		}
	})
	return func() time.Duration {
		close(ending)
		running.Wait()
		return average(pieces)
	}
}

// piece does the work, and returns the CPU time that the thread took for it.
func piece() (time.Duration, error) {
	before, err := threadTime()
	if err != nil {
		return 0, err
	}
	for range repeated {
		var decoded map[string]any
		if err := json.Unmarshal([]byte(object), &decoded); err != nil {
			return 0, err
		}
		if _, err := json.Marshal(decoded); err != nil {
			return 0, err
		}
	}
	after, err := threadTime()
	return after - before, err
}

// threadTime is the CPU time of the calling thread.
func threadTime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/thread-self/schedstat")
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of a thread: %w", err)
	}
	first, _, _ := bytes.Cut(text, []byte(" "))
	nanoseconds, err := strconv.ParseInt(string(first), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of a thread: %w", err)
	}
	return time.Duration(nanoseconds), nil
}

// average is that of all but the shortest and the longest pieces; zero of none.
func average(pieces []time.Duration) time.Duration {
	if len(pieces) == 0 {
		return 0
	}
	slices.Sort(pieces)
	pieces = pieces[len(pieces)/leftOut : len(pieces)-len(pieces)/leftOut]
	var sum time.Duration
	for _, p := range pieces {
		sum += p
	}
	return sum / time.Duration(len(pieces))
}
