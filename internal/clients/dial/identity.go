package dial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

const (
	// IdentityPath is the path of the namespace whose uid identifies a cluster.
	IdentityPath    = "/api/v1/namespaces/kube-system"
	identityTimeout = 5 * time.Second
)

// Identity is which cluster has to answer.
type Identity struct {
	// ID is the uid of the namespace kube-system. Empty: any cluster may answer.
	ID string
	// Token is a bearer token that may read this namespace; empty if a client certificate is used.
	Token string
	// Strict makes it an error that the cluster does not accept Token. Otherwise the answer to the request is 401, which suits
	// requests with the same token: they would not be accepted either.
	Strict bool
}

// IdentityError means that another cluster answers than the one that is meant.
type IdentityError struct{ message string }

// Error implements error.
func (e *IdentityError) Error() string { return e.message }

// ErrMayNotIdentify means that a member accepts the credential and does not let it read what identifies the member.
var ErrMayNotIdentify = errors.New("the credential may not read the namespace kube-system, whose uid is compared with spec.id: grant get on this " +
	"namespace, or, if rights of the credential were removed, run flagship join again with a kubeconfig of the cluster")

// errUnauthorized: the token is not accepted, so who answers could not be checked.
var errUnauthorized = errors.New("the cluster does not accept the credential that would identify it")

// errClosed: the connection was closed by another request, on which the cluster could not be identified. The next request dials.
var errClosed = errors.New("the connection to the member was closed, since the cluster could not be identified on it")

// marked is a connection with a mark once the cluster behind it was checked.
type marked struct {
	net.Conn
	mu      sync.Mutex // held while the cluster is being checked, so that only the first request reads the identity
	checked bool
	// refused is why the check failed, and refusedFor who was meant. The connection is closed then, but the transport can hand it
	// to another request before its reads fail.
	refused    error
	refusedFor Identity
}

func markConns(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &marked{Conn: conn}, nil
	}
}

// markOf finds the marked connection below layers of TLS.
func markOf(conn net.Conn) *marked {
	for conn != nil {
		if m, ok := conn.(*marked); ok {
			return m
		}
		layer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		conn = layer.NetConn()
	}
	return nil
}

// RoundTrip sends a request. On a connection that is new, the cluster behind it is requested its identity first; if that is
// another one, the connection is closed, nothing but that question was sent on it, and the error is an IdentityError.
//
// A request is not sent on a connection on which the identity was refused: kube-apiserver ends a connection after a 401, so
// that the transport would open one connection after the other, and request the identity on each.
func (w *Way) RoundTrip(req *http.Request, who Identity) (*http.Response, error) {
	if who.ID == "" {
		return w.Transport.RoundTrip(req)
	}
	caller := req.Context()
	ctx, cancel := context.WithCancelCause(caller)
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		// Called before the request is written. Closing the connection alone would make the transport dial another one.
		if err := w.checkConn(caller, info.Conn, who); err != nil {
			cancel(err)
			_ = info.Conn.Close()
		}
	}}
	resp, err := w.Transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && caller.Err() == nil {
			err = cause
		}
		cancel(nil)
		if errors.Is(err, errUnauthorized) && !who.Strict {
			return unauthorized(req), nil
		}
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, nil // The body is the connection itself, which can be written to; its context ends with the caller's.
	}
	resp.Body = &cancelling{resp.Body, func() { cancel(nil) }}
	return resp, nil
}

// unauthorized is the answer to a request whose token the cluster does not accept.
func unauthorized(req *http.Request) *http.Response {
	return &http.Response{
		Status: "401 Unauthorized", StatusCode: http.StatusUnauthorized, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("Unauthorized")), Request: req,
	}
}

// cancelling ends the context of a request with its body.
type cancelling struct {
	io.ReadCloser
	cancel func()
}

// Close implements io.Closer.
func (c *cancelling) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}

// checkConn checks who answers on a connection, once.
func (w *Way) checkConn(ctx context.Context, conn net.Conn, who Identity) error {
	mark := markOf(conn)
	if mark == nil {
		return errors.New("a connection to the member was made in an unknown way")
	}
	mark.mu.Lock()
	defer mark.mu.Unlock()
	switch {
	case mark.checked:
		return nil
	case mark.refused != nil && mark.refusedFor == who:
		return mark.refused
	case mark.refused != nil:
		return errClosed
	}
	err := w.Check(ctx, who)
	switch {
	case err == nil:
		mark.checked = true
	case ctx.Err() != nil: // The end of one caller is not the answer to another one.
		mark.refused, mark.refusedFor = errClosed, who
	default:
		mark.refused, mark.refusedFor = err, who
	}
	return err
}

// Check reads the identity of the cluster.
func (w *Way) Check(ctx context.Context, who Identity) error {
	if who.ID == "" {
		return nil
	}
	return w.identify(ctx, who.ID, who.Token)
}

func (w *Way) identify(ctx context.Context, id, token string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, identityTimeout, errors.New("no answer in time"))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL.String()+IdentityPath, nil)
	if err != nil {
		return fmt.Errorf("asking the cluster for its identity: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := w.Transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("asking the cluster for its identity: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return errUnauthorized
	case http.StatusForbidden:
		return ErrMayNotIdentify
	default:
		return fmt.Errorf("asking the cluster for its identity: it answers %s", bounds.Cut(resp.Status, bounds.NameBytes))
	}
	var namespace struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, bounds.Identity.Piece.Bytes)).Decode(&namespace); err != nil {
		return fmt.Errorf("reading the identity of the cluster: %w", err)
	}
	if got := namespace.Metadata.UID; got != id {
		return &IdentityError{fmt.Sprintf("another cluster answers at spec.apiEndpoint: the uid of its namespace kube-system is %q, spec.id is %q", bounds.Cut(got, bounds.NameBytes), id)}
	}
	return nil
}
