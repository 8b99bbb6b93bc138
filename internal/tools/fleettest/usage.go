package fleettest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
)

// Usage is what a process uses for what it keeps.
type Usage struct {
	// Heap is the memory of what is reachable, in bytes, with what was allocated while garbage was collected.
	Heap int64
	// Reachable is what the profile of the heap adds up to: without what was allocated meanwhile, which is most of it where a member floods
	// the process. It is sampled, and some percent off.
	Reachable int64
	// Goroutines is their number.
	Goroutines int64
}

// String has megabytes.
func (u Usage) String() string {
	return fmt.Sprintf("%d MB, %d MB of it reachable, and %d goroutines", u.Heap/1e6, u.Reachable/1e6, u.Goroutines)
}

var (
	stackLine     = regexp.MustCompile(`(?m)^(\d+): (\d+) \[\d+: \d+\] @ 0x`)
	heapLine      = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)
	goroutineLine = regexp.MustCompile(`(?m)^goroutine profile: total (\d+)$`)
)

// ReadUsage collects the garbage of a process and returns what it uses then, as its /debug/pprof at the server of the config has it. A control
// plane needs the flag --profiling, an agent --pprof-bind-address.
func ReadUsage(ctx context.Context, config *rest.Config) (Usage, error) {
	var u Usage
	for _, profile := range []struct {
		path string
		line *regexp.Regexp
		into *int64
	}{
		{"/debug/pprof/heap?debug=1&gc=1", heapLine, &u.Heap},
		{"/debug/pprof/goroutine?debug=1", goroutineLine, &u.Goroutines},
	} {
		text, err := page(ctx, config, profile.path)
		if err != nil {
			return Usage{}, err
		}
		found := profile.line.FindSubmatch(text)
		if found == nil {
			return Usage{}, fmt.Errorf("%s has no line %v", profile.path, profile.line)
		}
		if profile.into == &u.Heap {
			u.Reachable = reachable(text)
		}
		if *profile.into, err = strconv.ParseInt(string(bytes.TrimSpace(found[1])), 10, 64); err != nil {
			return Usage{}, fmt.Errorf("reading %s: %w", profile.path, err)
		}
	}
	return u, nil
}

// sampleEvery is how many bytes are allocated for each sample of a profile, runtime.MemProfileRate.
const sampleEvery = 512 << 10

// reachable adds up a profile of the heap in its form for readers. A stack of which one allocation in so many was sampled counts for all of
// them, as in https://github.com/google/pprof/blob/main/profile/legacy_profile.go.
func reachable(profile []byte) (sum int64) {
	for _, stack := range stackLine.FindAllSubmatch(profile, -1) {
		count, errCount := strconv.ParseFloat(string(stack[1]), 64)
		size, errSize := strconv.ParseFloat(string(stack[2]), 64)
		if errCount == nil && errSize == nil && count > 0 && size > 0 {
			sum += int64(size / -math.Expm1(-size/count/sampleEvery))
		}
	}
	return sum
}

// Goroutines are the stacks of a process, equal ones together, the most frequent first: for a reader of a failure. It needs the flags that
// ReadUsage needs.
func Goroutines(ctx context.Context, config *rest.Config) (string, error) {
	text, err := page(ctx, config, "/debug/pprof/goroutine?debug=1")
	return string(text), err
}

// page is what a server answers at a path.
func page(ctx context.Context, config *rest.Config, path string) (_ []byte, err error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(config.Host, "/")+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", path, response.Status)
	}
	return io.ReadAll(response.Body)
}
