package dial_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/transport"

	"github.com/flagship-k8s/flagship/internal/clients/dial"
)

// identity is what a server identifies the sender of a request by.
func identity(header http.Header) http.Header {
	found := http.Header{}
	for name, values := range header {
		lower := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if slices.Contains([]string{"authorization", "proxy-authorization", "cookie", "sec-websocket-protocol"}, lower) ||
			strings.HasPrefix(lower, "impersonate-") || strings.HasPrefix(lower, "x-remote-") {
			found[name] = values
		}
	}
	return found
}

// claims are what clients send to be taken for another: by a header, or by having the proxy remove what identifies them.
var claims = []string{
	"Authorization: Bearer stolen", "Proxy-Authorization: Basic x", "Cookie: a=b", "Impersonate-User: root", "Impersonate-Uid: 0",
	"Impersonate-Group: system:masters", "Impersonate-Extra-Scope: all", "Impersonate-Anything: x", "X-Remote-User: root", "X-Remote-Uid: 0",
	"X-Remote-Group: system:masters", "X-Remote-Extra-Scope: all", "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.c3RvbGVu",
	"impersonate_user: root", "X_Remote_User: root", "IMPERSONATE-USER: root",
}

// TestTheSenderIsSetLast: whatever a client sends and names in Connection, in which case and how often, and whether it upgrades its connection,
// the server gets the sender alone, and headers that identify no user.
func TestTheSenderIsSetLast(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }))
	defer server.Close()
	location, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	location.Path = "/x"
	sender := dial.Sender{Token: "ours", As: transport.ImpersonationConfig{UserName: "jane", UID: "7", Groups: []string{"dev", "ops"}, Extra: map[string][]string{"flagship.io/user": {"jane"}}}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dial.Forward(w, r, location, http.DefaultTransport, sender, unconcerned{})
	}))
	defer front.Close()
	want := http.Header{
		"Authorization": {"Bearer ours"}, "Impersonate-User": {"jane"}, "Impersonate-Uid": {"7"}, "Impersonate-Group": {"dev", "ops"},
		"Impersonate-Extra-Flagship.io%2fuser": {"jane"},
	}
	var named []string
	for _, header := range append(slices.Clone(claims), "Impersonate-Extra-Flagship.io%2fuser: eve") {
		name, _, _ := strings.Cut(header, ":")
		named = append(named, name)
	}
	all := strings.Join(named, ", ")
	connections := map[string][]string{
		"none": nil, "all": {"Connection: " + all}, "lower": {"connection: " + strings.ToLower(all)}, "upper": {"CONNECTION: " + strings.ToUpper(all)},
		"repeated": {"Connection: close", "connection: Impersonate-User,Impersonate-Group", "Connection: , Authorization ,"},
	}
	for name, connection := range connections {
		for _, sent := range [][]string{nil, claims, append(slices.Clone(claims), claims...)} {
			for _, upgrade := range [][]string{nil, {"Connection: Upgrade", "Upgrade: SPDY/3.1"}, {"connection: Impersonate-User, upgrade, Authorization", "Upgrade: websocket"}} {
				lines := slices.Concat(connection, upgrade, sent, []string{"Accept: text/x", "User-Agent: test"})
				got = nil
				raw(t, front.Listener.Addr().String(), lines)
				if diff := cmp.Diff(want, identity(got)); diff != "" {
					t.Errorf("%s, with %q: what the server receives (-want +got):\n%s", name, lines, diff)
				}
				if got.Get("Accept") != "text/x" || got.Get("User-Agent") != "test" || upgrade != nil && got.Get("Upgrade") == "" {
					t.Errorf("%s, with %q: other headers are %v", name, lines, got)
				}
			}
		}
	}
}

// raw sends a request as it is written.
func raw(t *testing.T, address string, lines []string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "GET /x HTTP/1.1\r\nHost: hub\r\n%s\r\n\r\n", strings.Join(lines, "\r\n"))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

// TestARequestWithoutAUserIsNotSent: it would have the rights of the account behind the token.
func TestARequestWithoutAUserIsNotSent(t *testing.T) {
	sent := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent = true }))
	defer server.Close()
	location, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	failed := &failures{}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://hub/x", nil)
	r.Header.Set("Impersonate-User", "root")
	dial.Forward(httptest.NewRecorder(), r, location, http.DefaultTransport, dial.Sender{Token: "ours"}, failed)
	if sent || failed.err == nil {
		t.Errorf("sent: %t, %v", sent, failed.err)
	}
}

type failures struct{ err error }

func (f *failures) Error(err error) { f.err = err }

// TestProtocolsOfWebsocketsStay: those that carry no token.
func TestProtocolsOfWebsocketsStay(t *testing.T) {
	kept := dial.WithoutIdentity(http.Header{"Sec-Websocket-Protocol": {"v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.eA", "v4.channel.k8s.io"}})
	if got := kept["Sec-Websocket-Protocol"]; !slices.Equal(got, []string{"v5.channel.k8s.io, v4.channel.k8s.io"}) {
		t.Errorf("got %q", got)
	}
}
