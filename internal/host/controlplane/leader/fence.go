package leader

import (
	"context"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// Fence returns a configuration whose clients write only while the term holds the lock. A write that is still without an answer at the
// end of that time is cancelled. The server checks them again, with Admission. Reads are not affected.
func (t *Term) Fence(config *rest.Config) *rest.Config {
	if t == nil {
		return config
	}
	fenced := rest.CopyConfig(config)
	fenced.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fence{next: next, term: t} })
	return fenced
}

// fence is a transport that refuses writes.
type fence struct {
	next http.RoundTripper
	term *Term
}

// RoundTrip implements http.RoundTripper.
func (f *fence) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || request.Method == http.MethodHead {
		return f.next.RoundTrip(request)
	}
	left, done, err := f.term.begin()
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeoutCause(request.Context(), left, ErrNotLeader)
	marked := request.Clone(ctx)
	marked.Header.Set(termHeader, f.term.Identity())
	response, err := f.next.RoundTrip(marked)
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &cancelling{ReadCloser: response.Body, cancel: cancel}
	return response, nil
}

// cancelling is a body that releases the context of its request.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (c *cancelling) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}
