package apiserver

import (
	"context"
	"net/http"
	"net/url"
)

// Dial says how to reach the API server of a member cluster on behalf of a user.
type Dial func(ctx context.Context, cluster string) (Endpoint, error)

// Endpoint is a member's API server and the credential that may impersonate users there.
type Endpoint struct {
	// URL is the server, with a path prefix if it has one.
	URL *url.URL
	// Transport verifies the server; it adds no credential.
	Transport http.RoundTripper
	// Token is the bearer token of an account that may impersonate.
	Token string
}
