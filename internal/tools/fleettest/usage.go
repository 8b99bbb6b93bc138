package fleettest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
)

// Usage is what a process uses for what it keeps.
type Usage struct {
	// Heap is the memory of what is reachable, in bytes: it does not depend on when garbage was collected last.
	Heap int64
	// Goroutines is their number.
	Goroutines int64
}

// String has megabytes.
func (u Usage) String() string {
	return fmt.Sprintf("%d MB and %d goroutines", u.Heap/1e6, u.Goroutines)
}

var (
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
		if *profile.into, err = strconv.ParseInt(string(bytes.TrimSpace(found[1])), 10, 64); err != nil {
			return Usage{}, fmt.Errorf("reading %s: %w", profile.path, err)
		}
	}
	return u, nil
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
