package inprocess

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
)

// backlog bounds what a handler may be ahead of its reader, in bytes. A slow reader then slows the handler
// down, as a full connection would.
const backlog = 1 << 20

// answer is the server's side of a response.
type answer struct {
	header http.Header
	body   *body
	ctx    context.Context
	// begun is closed when status and sent are set for good, or when the handler ended without: then
	// status is 0.
	begun  chan struct{}
	once   sync.Once
	status int
	sent   http.Header
}

// API server filters look for these two beside http.ResponseWriter before they stream anything.
var (
	_ http.Flusher = &answer{}
	//lint:ignore SA1019 Deprecated, but what the filters look for.
	_ http.CloseNotifier = &answer{}
)

func newAnswer(ctx context.Context, cancel context.CancelFunc) *answer {
	return &answer{header: http.Header{}, ctx: ctx, body: newBody(ctx, cancel), begun: make(chan struct{})}
}

// Header is what the handler may change until it begins to answer.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader begins the answer.
func (a *answer) WriteHeader(status int) {
	if status < http.StatusOK {
		return // Informational: the real one follows.
	}
	a.once.Do(func() {
		a.status, a.sent = status, a.header.Clone()
		close(a.begun)
	})
}

// Write adds to the body. It blocks while the reader is far behind.
func (a *answer) Write(data []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.write(data)
}

// Flush begins the answer: whatever is written is with the reader at once.
func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }

// CloseNotify notifies when the client has gone.
func (a *answer) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(a.ctx, func() { gone <- true })
	return gone
}

// end is called when the handler has returned. What is written after the client has gone is dropped.
func (a *answer) end(failure error) {
	if failure == nil {
		failure = context.Cause(a.ctx)
	}
	if failure == nil {
		a.WriteHeader(http.StatusOK)
		a.body.end(io.EOF)
	} else {
		a.body.end(failure)
		a.once.Do(func() { close(a.begun) })
	}
	a.body.forget()
	a.body.cancel()
}

// body is a bounded pipe from handler to client.
type body struct {
	cancel context.CancelFunc
	forget func() bool

	mu      sync.Mutex
	changed sync.Cond
	data    bytes.Buffer
	err     error // why there will be no more data
	closed  bool  // by the client
}

func newBody(ctx context.Context, cancel context.CancelFunc) *body {
	b := &body{cancel: cancel}
	b.changed.L = &b.mu
	b.forget = context.AfterFunc(ctx, func() { b.end(context.Cause(ctx)) })
	return b
}

// Read is the client's.
func (b *body) Read(into []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.data.Len() == 0 && b.err == nil && !b.closed {
		b.changed.Wait()
	}
	switch {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case b.data.Len() == 0:
		return 0, b.err
	}
	n, err := b.data.Read(into)
	b.changed.Broadcast()
	return n, err
}

// Close is called by the client: the context of the handler ends.
func (b *body) Close() error {
	b.mu.Lock()
	b.closed = true
	b.data = bytes.Buffer{}
	b.changed.Broadcast()
	b.mu.Unlock()
	b.forget()
	b.cancel()
	return nil
}

func (b *body) write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.data.Len() >= backlog && b.err == nil && !b.closed {
		b.changed.Wait()
	}
	switch {
	case b.closed:
		return 0, io.ErrClosedPipe
	case b.err != nil:
		return 0, b.err
	}
	n, err := b.data.Write(data)
	b.changed.Broadcast()
	return n, err
}

// end ends the data with a reason. The first reason stays.
func (b *body) end(reason error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = reason
	}
	b.changed.Broadcast()
}

func (b *body) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
