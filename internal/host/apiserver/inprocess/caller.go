package inprocess

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/flagship-k8s/flagship/internal/clients/dial"
)

// RequestAnnotation is the audit annotation of a request that this process makes for a user. It has the audit ID of the request that the user
// made, which has the address of the user.
const RequestAnnotation = "flagship.io/request"

// caller is for whom this process makes a request.
type caller struct {
	user user.Info
	// request is the audit ID of the request that the user made.
	request string
}

type callerKey struct{}

// withCaller makes a context that of a request for a user. request is the audit ID of the user's own request while that is handled, if there
// is one.
func withCaller(ctx context.Context, who user.Info, request string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller{user: who, request: request})
}

// Authenticate accepts requests that this process makes for a user as those of the user, whatever their headers contain. Others go to next.
// No client can make such a request: the user is in its context.
func Authenticate(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		who, ok := r.Context().Value(callerKey{}).(caller)
		if !ok {
			return next.AuthenticateRequest(r)
		}
		if who.request != "" {
			audit.AddAuditAnnotation(r.Context(), RequestAnnotation, who.request)
		}
		return &authenticator.Response{User: who.user}, true, nil
	})
}

// As returns a transport whose requests are those of a user: authorized, limited and audited as if the user had sent them. Requests that
// upgrade their connection fail: see ServeAs.
func (t *Transport) As(who user.Info) http.RoundTripper { return userTransport{t, who} }

type userTransport struct {
	*Transport
	who user.Info
}

// RoundTrip implements http.RoundTripper.
func (t userTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if httpstream.IsUpgradeRequest(request) {
		closeBody(request)
		return nil, errors.New("there is no connection to upgrade in the process")
	}
	own := audit.GetAuditIDTruncated(request.Context())
	return t.call(request, func(ctx context.Context) context.Context { return withCaller(ctx, t.who, own) })
}

// ServeAs answers a request of a user with what another path of this server answers to the same user, upgraded connections included. The
// query is that of the request.
func (t *Transport) ServeAs(w http.ResponseWriter, r *http.Request, who user.Info, path string) {
	ctx, _, cancel := handled(r.Context())
	defer cancel()
	inner := r.Clone(withCaller(ctx, who, audit.GetAuditIDTruncated(r.Context())))
	inner.Header = dial.WithoutIdentity(r.Header)
	inner.Header.Del(auditapi.HeaderAuditID) // it is another request
	if httpstream.IsUpgradeRequest(r) {
		inner.Header.Set("Connection", "Upgrade")
	}
	inner.URL = &url.URL{Path: path, RawQuery: r.URL.RawQuery}
	inner.RequestURI = inner.URL.RequestURI()
	t.handler.ServeHTTP(w, inner)
}
