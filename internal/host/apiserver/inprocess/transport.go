package inprocess

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"k8s.io/streaming/pkg/httpstream"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// ErrStopped is returned for requests to a server that has ended.
var ErrStopped = errors.New("the API server in this process has stopped")

// Transport is an http.RoundTripper that calls a handler.
type Transport struct {
	handler http.Handler
	network http.RoundTripper

	mu     sync.Mutex
	closed bool
	// handled has what ends the context of each request whose handler runs.
	handled map[*answer]context.CancelCauseFunc
	running sync.WaitGroup
}

var _ http.RoundTripper = &Transport{}

// NewTransport makes a Transport. Requests that take over their connection go through network, as there is
// no connection here to take over. Call Close when the server has ended.
func NewTransport(handler http.Handler, network http.RoundTripper) *Transport {
	return &Transport{handler: handler, network: network, handled: map[*answer]context.CancelCauseFunc{}}
}

// Close ends the requests that are being handled, and returns when their handlers have ended. Further requests fail with ErrStopped.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	for _, cancel := range t.handled {
		cancel(ErrStopped)
	}
	t.mu.Unlock()
	t.running.Wait()
}

// start runs the handler, unless the server has ended.
func (t *Transport) start(answer *answer, request *http.Request, cancel context.CancelCauseFunc) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrStopped
	}
	t.handled[answer] = cancel
	t.running.Go(func() {
		serve(t.handler, answer, request)
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.handled, answer)
	})
	return nil
}

// RoundTrip has the handler answer the request. It returns when the handler has begun to answer.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if httpstream.IsUpgradeRequest(request) {
		return t.network.RoundTrip(request)
	}
	return t.call(request, func(ctx context.Context) context.Context { return ctx })
}

// call has the handler answer the request, whose context gets values.
func (t *Transport) call(request *http.Request, values func(context.Context) context.Context) (*http.Response, error) {
	ctx, end, cancel := handled(request.Context())
	answer := newAnswer(ctx, cancel)
	if err := t.start(answer, received(values(ctx), request), end); err != nil {
		cancel()
		closeBody(request)
		return nil, err
	}
	select {
	case <-answer.begun:
	case <-request.Context().Done():
	}
	if err := context.Cause(request.Context()); err != nil {
		cancel()
		return nil, err
	}
	if answer.status == 0 {
		return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, answer.body.failure())
	}
	return answer.response(request), nil
}

// handled returns the context in which a request is handled: it ends with that of the client, and has none of its values but the slot of
// a reconcile, as if the request came through a connection. A request that is made while another one is handled would else be audited and
// authorized as that one. The first function ends it with a cause, the second when it is not needed any more.
func handled(client context.Context) (context.Context, context.CancelCauseFunc, context.CancelFunc) {
	ctx, end := context.WithCancelCause(controlloop.SlotOf(client).With(context.Background()))
	stop := context.AfterFunc(client, func() { end(context.Cause(client)) })
	return ctx, end, func() {
		stop()
		end(nil)
	}
}

// received is the request as a server receives it.
func received(ctx context.Context, request *http.Request) *http.Request {
	seen := request.Clone(ctx)
	seen.URL = &url.URL{Path: request.URL.Path, RawPath: request.URL.RawPath, RawQuery: request.URL.RawQuery}
	seen.RequestURI = seen.URL.RequestURI()
	seen.Proto, seen.ProtoMajor, seen.ProtoMinor = "HTTP/2.0", 2, 0
	seen.RemoteAddr = "127.0.0.1:0"
	seen.TLS = &tls.ConnectionState{HandshakeComplete: true}
	if seen.Host == "" {
		seen.Host = request.URL.Host
	}
	if seen.Body == nil {
		seen.Body = http.NoBody
	}
	return seen
}

// serve runs the handler to its end. A handler aborts an answer by panicking, as in net/http.
func serve(handler http.Handler, answer *answer, request *http.Request) {
	failure := errors.New("the handler aborted its answer")
	defer func() {
		_ = recover() // The API server has logged it.
		closeBody(request)
		answer.end(failure)
	}()
	handler.ServeHTTP(answer, request)
	failure = nil
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
}

// response is the client's side of an answer that has begun.
func (a *answer) response(request *http.Request) *http.Response {
	length := int64(-1)
	if text := a.sent.Get("Content-Length"); text != "" {
		if parsed, err := strconv.ParseInt(text, 10, 64); err == nil {
			length = parsed
		}
	}
	return &http.Response{
		Status:        strconv.Itoa(a.status) + " " + http.StatusText(a.status),
		StatusCode:    a.status,
		Proto:         "HTTP/2.0",
		ProtoMajor:    2,
		Header:        a.sent,
		Body:          a.body,
		ContentLength: length,
		Request:       request,
	}
}
