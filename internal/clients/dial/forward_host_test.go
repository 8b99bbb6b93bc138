package dial_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"k8s.io/client-go/transport"

	"github.com/flagship-k8s/flagship/internal/clients/dial"
)

// unconcerned ignores that the server refuses to upgrade a connection.
type unconcerned struct{}

func (unconcerned) Error(error) {}

// TestTheHostIsThatOfTheServer: a client does not choose it, whatever it sends. Agents rely on that.
func TestTheHostIsThatOfTheServer(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Host }))
	defer server.Close()
	location, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	location.Path = "/x"
	for name, upgrade := range map[string]bool{"Request": false, "Upgrade": true} {
		got = ""
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://chosen.example/x", nil)
		r.Host = "chosen.example"
		r.Header.Set("Connection", "Host, Impersonate-User")
		if upgrade {
			r.Header.Set("Connection", "Upgrade, Host")
			r.Header.Set("Upgrade", "SPDY/3.1")
		}
		dial.Forward(httptest.NewRecorder(), r, location, http.DefaultTransport, dial.Sender{As: transport.ImpersonationConfig{UserName: "jane"}}, unconcerned{})
		if got != location.Host {
			t.Errorf("%s: the server gets the host %q, want %q", name, got, location.Host)
		}
	}
}
