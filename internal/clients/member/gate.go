package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flagship-k8s/flagship/internal/clients/dial"
	"github.com/flagship-k8s/flagship/internal/clients/member/answers"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// gate is the only way to a member: every client of a Conn sends its requests through it.
type gate struct {
	tokens  *tokenCache
	breaker *breaker
	timeout time.Duration // of a call that has no deadline of its own
	slots   chan struct{} // one per call in flight; watches do not count

	rules dial.Rules
	rate  *bounds.Rate // of all that is read

	// forbidden is set by an answer 403, and reset when the next probe reads whether the credential still has the right to identify the
	// member. A credential with bounded rights gets such answers, too.
	forbidden atomic.Bool

	mu    sync.Mutex
	route *route
	// listed is, by what was listed, how many failures there were when it began.
	listed map[string]uint64
}

// manner is how a client is treated while the breaker is open.
type manner int

const (
	hasty    manner = iota // fail at once
	patient                // wait until the member is back
	probing                // try nevertheless
	renewing               // fail at once; only token requests, with the renewal token
)

// through is an http.RoundTripper with a manner.
type through struct {
	gate   *gate
	manner manner
}

// RoundTrip implements http.RoundTripper. It is the one place where the texts of errors are cut: what a member writes is in many of them.
func (t through) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.send(req)
	return resp, bounds.Error(err)
}

func (t through) send(req *http.Request) (*http.Response, error) {
	if err := t.admit(req); err != nil {
		if req.Body != nil {
			req.Body.Close() // a RoundTripper always does
		}
		return nil, err
	}
	if t.manner == patient {
		var outdated *http.Response
		if req, outdated = t.gate.afresh(req); outdated != nil {
			return outdated, nil
		}
	}
	switch {
	case t.manner == renewing:
		return t.gate.call(req, t.gate.renew)
	case isWatch(req):
		return t.gate.watch(req)
	case streams(req):
		return t.gate.send(req)
	}
	return t.gate.call(req, t.gate.send)
}

func (t through) admit(req *http.Request) error {
	switch t.manner {
	case hasty, renewing:
		return t.gate.breaker.check()
	case patient:
		return t.gate.breaker.wait(req.Context())
	default:
		return nil
	}
}

// streams returns whether the answer has no natural end.
func streams(req *http.Request) bool {
	return req.URL.Query().Get("follow") == "true" || req.Header.Get("Upgrade") != ""
}

func isWatch(req *http.Request) bool {
	value := req.URL.Query().Get("watch")
	return value == "true" || value == "1"
}

var (
	errNotBegun = errors.New("the watch did not begin in time")
	errNotEnded = errors.New("the watch did not end when it should have")
)

// watch sends a request for a stream of changes. It has to begin within the time that any answer may take, and to end
// after the time that it requests: if it does not, the API server or a proxy has lost it, on a connection that works.
//
// It is not compressed, other than answers to calls: kube-apiserver compresses every event of a watch by itself, and what decompresses it
// keeps 44 kB for as long as the watch is open.
func (g *gate) watch(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	limit := time.AfterFunc(g.timeout, func() { cancel(errNotBegun) })
	req = req.Clone(ctx)
	req.Header.Set("Accept-Encoding", "identity")
	defer limit.Stop() // that of the begin, or of an answer that the watch does not begin
	resp, err := g.send(req)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errNotBegun) {
			g.breaker.failed(cause)
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body = g.metered(req, resp, bounds.Failure.Piece, false, func() { cancel(nil) })
		if err := answers.Check(req, resp); err != nil {
			resp.Body.Close()
			return nil, err
		}
		return resp, nil
	}
	release := func() { cancel(nil) }
	if life, err := time.ParseDuration(req.URL.Query().Get("timeoutSeconds") + "s"); err == nil && life > 0 {
		end := time.AfterFunc(life+g.timeout, func() { cancel(errNotEnded) })
		release = func() { end.Stop(); cancel(nil) }
	}
	resp.Body = g.metered(req, resp, bounds.Event.Piece, true, release)
	return resp, nil
}

// metered is the body of an answer up to its bound. Release is called when it is closed.
func (g *gate) metered(req *http.Request, resp *http.Response, limit bounds.Limit, framed bool, release func()) io.ReadCloser {
	type body struct {
		io.Reader
		io.Closer
	}
	return &leasedBody{ReadCloser: body{bounds.NewMeter(req.Context(), resp.Body, limit, g.rate, framed), resp.Body}, release: sync.OnceFunc(release)}
}

// call sends a request that has an end: one of a bounded number, with a deadline. Only lists are compressed: a megabyte of gzip may be a
// gigabyte.
func (g *gate) call(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	ctx, cancel := req.Context(), context.CancelFunc(func() {})
	if _, ok := ctx.Deadline(); !ok {
		ctx, cancel = context.WithTimeout(ctx, g.timeout)
	}
	resume := controlloop.Pause(ctx)
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		cancel()
		resume()
		return nil, ctx.Err()
	}
	done := func() { <-g.slots; cancel(); resume() }
	limit, compressed := answers.LimitOf(req)
	req = req.Clone(ctx)
	if !compressed {
		req.Header.Set("Accept-Encoding", "identity")
	}
	resp, err := send(req)
	if err != nil {
		done()
		return nil, err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		limit = bounds.Failure.Piece
	}
	resp.Body = g.metered(req, resp, limit, false, done)
	if err := answers.Check(req, resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// leasedBody gives the slot of its request back when it is closed.
type leasedBody struct {
	io.ReadCloser
	release func()
}

// Close implements io.Closer.
func (b *leasedBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// ErrNoRenewalToken means that the credential of a member has no renewal token.
var ErrNoRenewalToken = errors.New("the credential has no renewal token")

// renew sends a request for a token with the renewal token. No other request may carry it: it does not expire.
func (g *gate) renew(req *http.Request) (*http.Response, error) {
	isTokenRequest, err := path.Match("/api/v1/namespaces/*/serviceaccounts/*/token", req.URL.Path)
	if err != nil || !isTokenRequest || req.Method != http.MethodPost {
		return nil, errors.New("the renewal token is for requests of tokens only")
	}
	credential, err := g.tokens.get(req.Context(), credentialPause)
	if err != nil {
		return nil, err
	}
	if credential.Renewal == "" {
		return nil, ErrNoRenewalToken
	}
	return g.attempt(req, credential, credential.Renewal)
}

// send adds the token and follows the route. After a refusal the token is read again, and the request is sent once more if
// it is another one.
func (g *gate) send(req *http.Request) (*http.Response, error) {
	credential, err := g.tokens.get(req.Context(), credentialAge)
	if err != nil {
		g.breaker.failed(err)
		return nil, err
	}
	resp, err := g.attempt(req, credential, credential.Token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || req.Body != nil && req.GetBody == nil {
		return resp, err
	}
	renewed, err := g.tokens.get(req.Context(), credentialPause)
	if err != nil {
		return resp, nil
	}
	if renewed.Token == credential.Token && renewed.sameTrust(credential.Credential) {
		return resp, nil
	}
	return g.again(req, resp, renewed)
}

// again repeats a request that was refused, with another credential. It returns the refusal if the request cannot be repeated.
func (g *gate) again(req *http.Request, refusal *http.Response, credential issued) (*http.Response, error) {
	req = req.Clone(req.Context())
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return refusal, nil
		}
		req.Body = body
	}
	refusal.Body.Close()
	return g.attempt(req, credential, credential.Token)
}

func (g *gate) attempt(req *http.Request, credential issued, token string) (*http.Response, error) {
	route, err := g.plan(credential)
	if err != nil {
		err = accessError(err)
		g.breaker.failed(err)
		return nil, err
	}
	req = req.Clone(req.Context())
	route.redirect(req)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := route.way.RoundTrip(req, dial.Identity{ID: credential.address.id, Token: token})
	err = accessError(err)
	g.judge(req.Context(), resp, err)
	return resp, err
}

// judge reports the result of a request to the breaker. A request that its caller cancelled is no failure of the member.
func (g *gate) judge(ctx context.Context, resp *http.Response, err error) {
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
	case err != nil:
		g.breaker.failed(err)
	case resp.StatusCode == http.StatusBadGateway, resp.StatusCode == http.StatusGatewayTimeout:
		g.breaker.failed(fmt.Errorf("the way to the API server answers %q", resp.Status))
	case resp.StatusCode == http.StatusServiceUnavailable:
		// No failure of the member: one extension API server that is away answers so, through a healthy one.
	default:
		if resp.StatusCode == http.StatusForbidden {
			g.forbidden.Store(true)
		}
		g.breaker.succeeded()
	}
}

// plan returns the route for a credential, a new one if the address or the trust changed.
func (g *gate) plan(credential issued) (*route, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.route.leads(credential.address, credential.Credential) {
		return g.route, nil
	}
	way, err := plan(credential.address, credential.Credential, g.rules)
	if err != nil {
		return nil, err
	}
	if g.route != nil {
		g.route.way.Transport.CloseIdleConnections()
	}
	g.route = way
	return way, nil
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.route != nil {
		g.route.way.Transport.CloseIdleConnections()
	}
}
