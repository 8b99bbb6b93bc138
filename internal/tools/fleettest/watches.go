package fleettest

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// openRequests are those of an API server that last, by resource and scope.
var openRequests = regexp.MustCompile(`(?m)^apiserver_longrunning_requests\{.*resource="(\w+)",scope="namespace",.*verb="WATCH".*\} (\S+)$`)

// ExpectWatches waits until as many watches of a resource are open in a cluster, not counting those of all namespaces.
func ExpectWatches(t testing.TB, c *Cluster, resource string, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond) // there is no event when a watch begins or ends
	defer look.Stop()
	for {
		text, err := metrics(ctx, c.Config)
		if err != nil {
			t.Fatalf("reading the metrics of %s: %v", c.Name, err)
		}
		open := countWatches(text, resource)
		if open == want {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("%d watches of %s in single namespaces are open in %s, want %d", open, resource, c.Name, want)
		}
	}
}

func countWatches(text []byte, resource string) int {
	for _, line := range openRequests.FindAllSubmatch(text, -1) {
		if string(line[1]) == resource {
			n, err := strconv.Atoi(string(line[2]))
			if err == nil {
				return n
			}
		}
	}
	return 0
}
