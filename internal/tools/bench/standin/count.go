package standin

import (
	"maps"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// Kinds of requests that a stand-in counts.
const (
	Reads = iota
	Watches
	Writes
	Documents // health, version, discovery
	Refused   // by a fault
	kindsOfRequests
)

// counts are how many requests a stand-in got.
type counts struct {
	requests [kindsOfRequests]atomic.Int64

	mu sync.Mutex
	// written has the writes by verb and resource.
	written map[string]int64
}

func (c *counts) count(info *request.RequestInfo) {
	switch {
	case !info.IsResourceRequest:
		c.requests[Documents].Add(1)
	case info.Verb == "watch":
		c.requests[Watches].Add(1)
	case info.Verb == "get" || info.Verb == "list":
		c.requests[Reads].Add(1)
	default:
		c.requests[Writes].Add(1)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.written == nil {
			c.written = map[string]int64{}
		}
		what := info.Verb + " " + info.Resource
		if info.Subresource != "" {
			what += "/" + info.Subresource
		}
		c.written[what]++
	}
}

func (c *counts) writes() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.written)
}
