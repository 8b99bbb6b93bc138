package member_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// server is a member whose answers a test sets, and which counts requests.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	handle  http.HandlerFunc
	counts  map[string]int  // by "METHOD path"
	clients map[string]bool // the addresses of the connections
	watches chan *watcher   // every watch that begins
}

// watcher is one watch that a client has open.
type watcher struct {
	rv    string
	lists bool        // begins with what there is
	lines chan string // sent as they come; closing it ends the watch
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{counts: map[string]int{}, clients: map[string]bool{}, watches: make(chan *watcher, 16)}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.counts[r.Method+" "+r.URL.Path]++
		s.clients[r.RemoteAddr] = true
		handle := s.handle
		s.mu.Unlock()
		if handle != nil {
			handle(w, r)
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// answer sets what the server does from now on.
func (s *server) answer(handle http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handle = handle
}

func (s *server) count(request string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[request]
}

// connections is how many connections have carried requests.
func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

// serveWatch lets the test speak through a watch.
func (s *server) serveWatch(w http.ResponseWriter, r *http.Request) {
	current := &watcher{rv: r.URL.Query().Get("resourceVersion"), lists: r.URL.Query().Get("sendInitialEvents") == "true", lines: make(chan string)}
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	s.watches <- current
	for {
		select {
		case line, ok := <-current.lines:
			if !ok {
				return
			}
			fmt.Fprintln(w, line)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	reply(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
	})
}

func cluster(endpoint string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "member1", UID: types.UID("u1")},
		Spec:       clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Push, APIEndpoint: endpoint, InsecureSkipTLSVerification: true},
	}
}

// connect returns a fleet with a connection to the server; edit may change its configuration.
func connect(t *testing.T, endpoint string, edit func(*member.Config)) (*member.Fleet, *member.Conn) {
	t.Helper()
	config := member.Config{AllowLoopback: true, RequestTimeout: patience, Credentials: func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
		return member.Credential{Token: "token"}, nil
	}}
	if edit != nil {
		edit(&config)
	}
	fleet, err := member.NewFleet(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := fleet.Upsert(t.Context(), cluster(endpoint)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	conn, ok := fleet.Get("member1")
	if !ok {
		t.Fatal("there is no connection")
	}
	return fleet, conn
}

// patience is how long a test waits: it is reached only if what is waited for never comes.
const patience = 3 * time.Minute

// eventually waits for a state that other goroutines bring about.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.After(patience); !is(); {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// get sends one request through a client of the connection.
func get(ctx context.Context, client *http.Client, path string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://member1"+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func post(ctx context.Context, client *http.Client, path, body string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://member1"+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body) // so that the connection is used again
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}
