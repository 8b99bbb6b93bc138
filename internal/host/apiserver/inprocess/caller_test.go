package inprocess_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/inprocess"
)

// whoever answers with the user of a request, and how it was authenticated. It upgrades connections.
func whoever(w http.ResponseWriter, r *http.Request) {
	byHeader := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "header " + r.Header.Get("Authorization")}}, true, nil
	})
	who, _, err := inprocess.Authenticate(byHeader).AuthenticateRequest(r)
	answer := fmt.Sprintf("%s %s %s %v", who.User.GetName(), r.URL, r.Header["Impersonate-User"], err)
	if r.Header.Get("Connection") != "Upgrade" {
		_, _ = io.WriteString(w, answer)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n%s\n", r.Header.Get("Upgrade"), answer)
}

// TestACallerIsNoHeader: requests for a user are those of the user, whatever their headers are, and no others are.
func TestACallerIsNoHeader(t *testing.T) {
	process := inprocess.NewTransport(http.HandlerFunc(whoever), &wire{})
	defer process.Close()
	jane := &user.DefaultInfo{Name: "jane"}
	for _, tc := range []struct {
		transport http.RoundTripper
		want      string
	}{{process.As(jane), "jane /a%2Fb?x=1 [root] <nil>"}, {process, "header Bearer root /a%2Fb?x=1 [root] <nil>"}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://hub/a%2Fb?x=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer root"}, "Impersonate-User": {"root"}}
		response, err := tc.transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if diff := cmp.Diff(tc.want, string(text)); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		_ = response.Body.Close()
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://hub/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"spdy"}}
	if response, err := process.As(jane).RoundTrip(r); err == nil {
		_ = response.Body.Close()
		t.Error("a request that upgrades its connection leaves the process")
	}
}

// TestARequestIsServedAgain: as the same user, at another path, without what the client sent as its identity, and with its connection.
func TestARequestIsServedAgain(t *testing.T) {
	process := inprocess.NewTransport(http.HandlerFunc(whoever), &wire{})
	defer process.Close()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		process.ServeAs(w, r, &user.DefaultInfo{Name: "jane"}, "/inner path")
	}))
	defer front.Close()
	for headers, want := range map[string]string{
		"Impersonate-User: root\r\nConnection: Impersonate-User":                                                         "jane /inner%20path?x=1 [] <nil>",
		"Impersonate-User: root\r\nConnection: upgrade, Impersonate-User\r\nAuthorization: Bearer root\r\nUpgrade: spdy": "jane /inner%20path?x=1 [] <nil>",
	} {
		conn, err := net.Dial("tcp", front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "GET /outer?x=1 HTTP/1.1\r\nHost: hub\r\n%s\r\n\r\n", headers)
		reader := bufio.NewReader(conn)
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		var text []byte
		if response.StatusCode == http.StatusSwitchingProtocols {
			text, err = reader.ReadBytes('\n')
			text = text[:max(0, len(text)-1)]
		} else {
			text, err = io.ReadAll(response.Body)
		}
		if diff := cmp.Diff(want, string(text)); err != nil || diff != "" {
			t.Errorf("with %q: %v (-want +got):\n%s", headers, err, diff)
		}
		_, _ = response.Body.Close(), conn.Close()
	}
}
