package dial

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/client-go/transport"
	"k8s.io/streaming/pkg/httpstream"
)

// Sender is who a forwarded request is from, to the server that gets it.
type Sender struct {
	// Token is a bearer token; empty if the transport authenticates.
	Token string
	// As is the user whom the holder of the token impersonates. Its name is required: without one the request would have the rights of the
	// holder.
	As transport.ImpersonationConfig
}

// Forward carries a request to an API server and the answer back, upgraded connections included. What the client sent as its identity is
// removed first, and the sender is set on the way to the transport, behind everything that acts on headers of the client. A request that
// upgrades its connection needs a transport that is an *http.Transport, or a wrapper that has one.
func Forward(w http.ResponseWriter, r *http.Request, location *url.URL, to http.RoundTripper, sender Sender, failed utilproxy.SimpleErrorResponder) {
	if sender.As.UserName == "" {
		failed.Error(errors.New("the request has no user"))
		return
	}
	upgrade := httpstream.IsUpgradeRequest(r)
	forwarded := r.WithContext(r.Context())
	forwarded.Header = WithoutIdentity(r.Header)
	forwarded.Trailer = nil
	if upgrade {
		forwarded.Header.Set("Connection", "Upgrade")
	}
	handler := utilproxy.NewUpgradeAwareHandler(location, sender.through(to), false, upgrade, utilproxy.NewErrorResponder(failed))
	handler.UpgradeTransport = utilproxy.NewUpgradeRequestRoundTripper(to, sender.through(utilproxy.MirrorRequest))
	// A server must not send our credential elsewhere.
	handler.RejectForwardingRedirects = true
	handler.UseLocationHost = true
	handler.ServeHTTP(w, forwarded)
}

// through sets the identity of each request. The library leaves an identity that is there already as it is: it has to be removed before.
func (s Sender) through(to http.RoundTripper) http.RoundTripper {
	if s.Token != "" {
		to = transport.NewBearerAuthRoundTripper(s.Token, to)
	}
	return transport.NewImpersonatingRoundTripper(s.As, to)
}

// WithoutIdentity is a copy of the headers of a client without those by which a server identifies it, those that its Connection header
// names, and that header itself: a proxy removes what Connection names, whoever has set it. Underscores count as hyphens, as in some servers
// in front of a member.
func WithoutIdentity(header http.Header) http.Header {
	hop := map[string]bool{"connection": true, "proxy-connection": true}
	for name, values := range header {
		if normal(name) != "connection" {
			continue
		}
		for _, value := range values {
			for token := range strings.SplitSeq(value, ",") {
				hop[normal(token)] = true
			}
		}
	}
	delete(hop, "upgrade")
	kept := http.Header{}
	for name, values := range header {
		n := normal(name)
		if hop[n] || identifies(n) {
			continue
		}
		if n == "sec-websocket-protocol" {
			if values = withoutTokens(values); len(values) == 0 {
				continue
			}
		}
		kept[name] = slices.Clone(values)
	}
	return kept
}

// tokenProtocol begins the name of a protocol in which the library's clients in browsers send a bearer token.
const tokenProtocol = "base64url.bearer.authorization.k8s.io."

// withoutTokens are the protocols that a websocket client offers, without bearer tokens.
func withoutTokens(values []string) []string {
	var kept []string
	for _, value := range values {
		for protocol := range strings.SplitSeq(value, ",") {
			if protocol = strings.TrimSpace(protocol); protocol != "" && !strings.HasPrefix(strings.ToLower(protocol), tokenProtocol) {
				kept = append(kept, protocol)
			}
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return []string{strings.Join(kept, ", ")}
}

func normal(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimSpace(name), "_", "-"))
}

func identifies(name string) bool {
	switch name {
	case "authorization", "proxy-authorization", "cookie":
		return true
	}
	return strings.HasPrefix(name, "impersonate-") || strings.HasPrefix(name, "x-remote-")
}
