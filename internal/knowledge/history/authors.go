package history

import (
	"sync"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
)

// maxAuthors is how many changes Authors stores: those of some seconds, until they are recorded.
const maxAuthors = 8192

// Change names one change of one object: the update of what it was at a resource version, its creation if that is empty, or its deletion.
type Change struct {
	UID types.UID
	// From is the resource version before the change.
	From string
	// Deletion is set for a deletion, which has no From.
	Deletion bool
}

// Authors stores which user requested a change. The API server admits a request before it is stored, and an admitted request may fail:
// a change that several users requested has no author. What is not stored, after a restart or since another server admitted it, has
// none either.
type Authors struct {
	mu       sync.Mutex
	requests map[Change]request
	// order has the keys of requests, the oldest at next once it is full.
	order []Change
	next  int
}

// request is who requested a change, and the span of the request if it is sampled.
type request struct {
	user string
	span *trace.SpanContext
}

// Requested stores a request of a user. Span is that of the request; one that is not sampled is not kept.
func (a *Authors) Requested(change Change, user string, span trace.SpanContext) {
	next := request{user: user}
	if span.IsSampled() {
		next.span = &span
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.requests == nil {
		a.requests = map[Change]request{}
	}
	if known, ok := a.requests[change]; ok {
		if known.user != user && !change.Deletion {
			next = request{}
		}
		a.requests[change] = next
		return
	}
	if len(a.order) < maxAuthors {
		a.order = append(a.order, change)
	} else {
		delete(a.requests, a.order[a.next])
		a.order[a.next] = change
		a.next = (a.next + 1) % maxAuthors
	}
	a.requests[change] = next
}

// Of returns the user who requested a change, "" if that is not known.
func (a *Authors) Of(change Change) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests[change].user
}
