package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// Writes counts accepted and refused write requests by resource, for instance "works/status" or "events".
type Writes map[string]float64

var (
	requestLine = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)$`)
	label       = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// CountWrites reads the API server's own counters.
func CountWrites(ctx context.Context, hub kubernetes.Interface) (Writes, error) {
	text, err := hub.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the hub's request counters: %w", err)
	}
	return ParseWrites(string(text))
}

const (
	// calm is for how long nothing must be written: five seconds after a member is ready, the token is copied that renews its credentials.
	calm = 7 * time.Second
	// calmTimeout bounds the wait.
	calmTimeout = 2 * time.Minute
)

// AwaitCalm returns when nothing has been written for a while. The writes of members that join are not those of what is measured.
func AwaitCalm(ctx context.Context, hub kubernetes.Interface) error {
	var last Writes
	since := time.Now()
	err := wait.PollUntilContextTimeout(ctx, time.Second, calmTimeout, true, func(ctx context.Context) (bool, error) {
		counted, err := CountWrites(ctx, hub)
		if err != nil {
			return false, err
		}
		if !maps.Equal(counted, last) {
			last, since = counted, time.Now()
		}
		return time.Since(since) >= calm, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until nothing is written: %w", err)
	}
	return nil
}

func ParseWrites(text string) (Writes, error) {
	out := Writes{}
	for line := range strings.Lines(text) {
		m := requestLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		labels := map[string]string{}
		for _, l := range label.FindAllStringSubmatch(m[1], -1) {
			labels[l[1]] = l[2]
		}
		switch labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
		default:
			continue
		}
		if labels["resource"] == "" || labels["resource"] == "leases" || strings.HasSuffix(labels["resource"], "reviews") {
			continue
		}
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, fmt.Errorf("parsing counter %q: %w", line, err)
		}
		key := labels["resource"]
		if sub := labels["subresource"]; sub != "" {
			key += "/" + sub
		}
		if strings.HasPrefix(labels["code"], "4") {
			out["refused with "+labels["code"]] += n
		}
		out[labels["verb"]+" "+key] += n
	}
	return out, nil
}

// Since returns what was written after an earlier count.
func (w Writes) Since(before Writes) Writes {
	out := Writes{}
	for k, n := range w {
		if d := n - before[k]; d > 0 {
			out[k] = d
		}
	}
	return out
}

// Total counts every write once; refusals are already among them.
func (w Writes) Total() float64 {
	var sum float64
	for k, n := range w {
		if !strings.HasPrefix(k, "refused") {
			sum += n
		}
	}
	return sum
}

// Rows lists the counters, largest first.
func (w Writes) Rows() []string {
	keys := slices.Collect(maps.Keys(w))
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(w[b], w[a]), strings.Compare(a, b))
	})
	return keys
}
