package fleettest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// Request is a kind of request that an API server counts.
type Request struct {
	// Verb is GET, LIST, WATCH, POST, PUT, PATCH, APPLY, DELETE, DELETECOLLECTION or CONNECT.
	Verb string
	// Group is empty for the core group.
	Group string
	// Resource is plural, and with a slash and the subresource if there is one: "deployments/status".
	Resource string
	// Code is the status the request was answered with.
	Code int
}

// Requests counts requests by their kind.
type Requests map[Request]int

var (
	requestLine = regexp.MustCompile(`(?m)^apiserver_request_total\{(.*)\} (\S+)$`)
	labelPair   = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// CountRequests returns how many requests of each kind the cluster's API server has answered since it started. Subtract
// two counts to find what happened in between.
func CountRequests(t testing.TB, c *Cluster) Requests {
	t.Helper()
	text, err := metrics(t.Context(), c.Config)
	if err != nil {
		t.Fatalf("reading the metrics of %s: %v", c.Name, err)
	}
	counts, err := parseRequests(text)
	if err != nil {
		t.Fatalf("reading the metrics of %s: %v", c.Name, err)
	}
	return counts
}

func metrics(ctx context.Context, config *rest.Config) ([]byte, error) {
	return page(ctx, config, "/metrics")
}

func parseRequests(text []byte) (Requests, error) {
	counts := Requests{}
	for _, line := range requestLine.FindAllSubmatch(text, -1) {
		labels := map[string]string{}
		for _, pair := range labelPair.FindAllSubmatch(line[1], -1) {
			labels[string(pair[1])] = string(pair[2])
		}
		n, err := strconv.ParseFloat(string(bytes.TrimSpace(line[2])), 64)
		if err != nil {
			return nil, fmt.Errorf("counting %s: %w", line[0], err)
		}
		r := Request{Verb: labels["verb"], Group: labels["group"], Resource: labels["resource"]}
		if sub := labels["subresource"]; sub != "" {
			r.Resource += "/" + sub
		}
		r.Code, _ = strconv.Atoi(labels["code"]) // a WATCH that was hung up has none
		counts[r] += int(n)
	}
	return counts, nil
}

// Since is what was counted after the earlier count.
func (r Requests) Since(earlier Requests) Requests {
	out := Requests{}
	for kind, n := range r {
		if n -= earlier[kind]; n > 0 {
			out[kind] = n
		}
	}
	return out
}

// Writes are the requests for a change, refused ones included. Left out are Leases, which are renewed all the
// time, and questions in the form of a write, such as access reviews and token requests.
func (r Requests) Writes() Requests {
	writes := []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}
	out := Requests{}
	for kind, n := range r {
		switch {
		case !slices.Contains(writes, kind.Verb), kind.Resource == "leases", strings.HasSuffix(kind.Resource, "reviews"), kind.Resource == "serviceaccounts/token":
			continue
		}
		out[kind] = n
	}
	return out
}

// Accepted keeps the requests that were not refused. A refused one is sent again, and how many are refused depends on what else is
// written at the time.
func (r Requests) Accepted() Requests {
	out := Requests{}
	for kind, n := range r {
		if kind.Code < http.StatusBadRequest {
			out[kind] = n
		}
	}
	return out
}

// Of keeps the requests for the given resources, with their subresources: "deployments".
func (r Requests) Of(resources ...string) Requests {
	out := Requests{}
	for kind, n := range r {
		resource, _, _ := strings.Cut(kind.Resource, "/")
		if slices.Contains(resources, resource) {
			out[kind] = n
		}
	}
	return out
}

// Total is the number of requests of all kinds.
func (r Requests) Total() int {
	total := 0
	for _, n := range r {
		total += n
	}
	return total
}

// String lists the kinds, the most frequent first.
func (r Requests) String() string {
	kinds := slices.SortedFunc(maps.Keys(r), func(a, b Request) int {
		if r[a] != r[b] {
			return r[b] - r[a]
		}
		return strings.Compare(a.Verb+a.Group+a.Resource, b.Verb+b.Group+b.Resource)
	})
	var out strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&out, "%6d %s %s/%s (%d)\n", r[k], k.Verb, k.Group, k.Resource, k.Code)
	}
	return out.String()
}
