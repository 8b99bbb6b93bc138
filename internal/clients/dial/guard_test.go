package dial_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/flagship-k8s/flagship/internal/clients/dial"
)

// TestMayWrite: what is not allowed any more is not sent, also on a connection that exists.
func TestMayWrite(t *testing.T) {
	var served atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	t.Cleanup(server.Close)
	var refusal error
	way, err := dial.NewWay(dial.Target{Endpoint: server.URL, Insecure: true}, dial.Rules{AllowLoopback: true, MayWrite: func() error { return refusal }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Transport.CloseIdleConnections)
	send := func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := way.Transport.RoundTrip(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	if err := send(); err != nil || served.Load() != 1 {
		t.Fatalf("what is allowed: %v", err)
	}
	refusal = errors.New("another process writes")
	if err := send(); !errors.Is(err, refusal) || served.Load() != 1 {
		t.Errorf("what is not allowed: %v, and %d requests were served", err, served.Load())
	}
}
