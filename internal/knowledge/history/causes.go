package history

import (
	"go.opentelemetry.io/otel/trace"
	"k8s.io/utils/lru"
)

// maxCauses bounds the memory of Causes: 2 MB.
const maxCauses = 8192

// Causes has, for traces, the spans of the requests that changed templates last, by the binding of the template. It has none of requests that
// were not sampled, that another server admitted, or that are from before a start, nor of the templates that changed longest ago.
type Causes struct {
	authors *Authors
	spans   *lru.Cache
}

// NewCauses returns Causes that find requests among those of authors.
func NewCauses(authors *Authors) *Causes {
	return &Causes{authors: authors, spans: lru.New(maxCauses)}
}

// Changed notes that the template of a binding, "namespace/name", was created or changed. A change that no user requested, such as one of
// the control plane itself, leaves the cause as it is.
func (c *Causes) Changed(binding string, change Change) {
	c.authors.mu.Lock()
	by, known := c.authors.requests[change]
	c.authors.mu.Unlock()
	switch {
	case !known:
	case by.span == nil:
		c.spans.Add(binding, trace.SpanContext{})
	default:
		c.spans.Add(binding, *by.span)
	}
}

// Deleted drops the span of a binding.
func (c *Causes) Deleted(binding string) { c.spans.Remove(binding) }

// Created is Changed for a template that may be known: the request that created it is the cause unless a later one is.
func (c *Causes) Created(binding string, change Change) {
	if _, known := c.spans.Get(binding); !known {
		c.Changed(binding, change)
	}
}

// Of returns the span of the request that changed the template of a binding last; it is not valid if that is not known.
func (c *Causes) Of(binding string) trace.SpanContext {
	span, _ := c.spans.Get(binding)
	of, _ := span.(trace.SpanContext)
	return of
}
