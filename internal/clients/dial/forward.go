package dial

import (
	"net/http"
	"net/url"

	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream"
)

// Forward carries a request to an API server and the answer back, upgraded connections included. The request has the headers that the
// server gets. A request that upgrades its connection needs a transport that is an *http.Transport, or a wrapper that has one.
func Forward(w http.ResponseWriter, r *http.Request, location *url.URL, transport http.RoundTripper, failed utilproxy.SimpleErrorResponder) {
	handler := utilproxy.NewUpgradeAwareHandler(location, transport, false, httpstream.IsUpgradeRequest(r), utilproxy.NewErrorResponder(failed))
	handler.UpgradeTransport = utilproxy.NewUpgradeRequestRoundTripper(transport, utilproxy.MirrorRequest)
	// A server must not send our credential elsewhere.
	handler.RejectForwardingRedirects = true
	handler.UseLocationHost = true
	handler.ServeHTTP(w, r)
}
