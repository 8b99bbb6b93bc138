package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// roundTripper makes a function a transport.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// deadline ends a request that has no complete answer in time, and every request when the context of the command ends. A watch, a log
// that is followed and an upgraded connection have to begin in time; any other log has to send something in time.
//
//nolint:contextcheck // each request has a context of its own
func deadline(command context.Context, next http.RoundTripper, limit time.Duration) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancelCause(req.Context())
		late := fmt.Errorf("no answer within %s", limit)
		timer := time.AfterFunc(limit, func() { cancel(late) })
		stop := context.AfterFunc(command, func() { cancel(command.Err()) })
		end := func() {
			timer.Stop()
			stop()
			cancel(nil)
		}
		response, err := next.RoundTrip(req.WithContext(ctx))
		if err != nil {
			if cause := context.Cause(ctx); errors.Is(cause, late) {
				err = late
			}
			end()
			return nil, err
		}
		if response.StatusCode == http.StatusSwitchingProtocols {
			timer.Stop() // the connection is no longer that of a request
			return response, nil
		}
		b := &body{ReadCloser: response.Body, end: end, err: func() error { return context.Cause(ctx) }, read: func() {}}
		query := req.URL.Query()
		switch {
		case query.Get("watch") == "true" || query.Get("follow") == "true":
			timer.Stop()
		case strings.HasSuffix(req.URL.Path, "/log"):
			b.read = func() { timer.Reset(limit) }
		}
		response.Body = b
		return response, nil
	})
}

// body releases the timer of its request, and has the reason why it ended early.
type body struct {
	io.ReadCloser
	end, read func()
	err       func() error
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
		b.read()
	case !errors.Is(err, io.EOF) && b.err() != nil:
		err = b.err()
	}
	return n, err
}

func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
