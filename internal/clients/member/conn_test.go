package member_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

func TestARenewedTokenNeedsNoReconnect(t *testing.T) {
	s := newServer(t)
	var valid atomic.Value
	valid.Store("first")
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Authorization") != "Bearer "+valid.Load().(string) {
			w.WriteHeader(http.StatusUnauthorized)
		} else if string(body) != "body" {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	reads := 0
	_, conn := connect(t, s.URL, func(c *member.Config) {
		c.Clock = clock
		c.Credentials = func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
			reads++
			return member.Credential{Token: valid.Load().(string)}, nil
		}
	})
	client := conn.HTTPClient()
	for range 3 {
		if code, err := post(t.Context(), client, "/x", "body"); code != http.StatusOK {
			t.Fatalf("with the first token: %d, %v", code, err)
		}
	}
	if reads != 1 {
		t.Errorf("the credential was read %d times, want once", reads)
	}
	valid.Store("second")
	clock.Step(5 * time.Second)
	if code, err := post(t.Context(), client, "/x", "body"); code != http.StatusOK {
		t.Errorf("after the token was renewed: %d, %v", code, err)
	}
	valid.Store("third")
	if code, _ := post(t.Context(), client, "/x", "body"); code != http.StatusUnauthorized {
		t.Errorf("a member that refuses everything must not cause a read of credentials for each request; got %d", code)
	}
}

// TestTheRenewalTokenIsForTokenRequestsOnly: it does not expire, so nothing else is sent with it.
func TestTheRenewalTokenIsForTokenRequestsOnly(t *testing.T) {
	const tokens = "/api/v1/namespaces/karmada-cluster/serviceaccounts/karmada-m/token"
	s := newServer(t)
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer renewal" && r.URL.Path != tokens {
			t.Errorf("the renewal token was sent to %s", r.URL.Path)
		}
		if r.Header.Get("Authorization") != "Bearer renewal" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1"}`)
	})
	renewal := "renewal"
	_, conn := connect(t, s.URL, func(c *member.Config) {
		c.Clock = clocktesting.NewFakeClock(time.Unix(1000, 0))
		c.Credentials = func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
			return member.Credential{Token: "expired", Renewal: renewal}, nil
		}
	})
	if code, err := post(t.Context(), conn.HTTPClient(), tokens, "body"); code != http.StatusUnauthorized {
		t.Errorf("with the token: %d, %v, want a refusal and no other token", code, err)
	}
	if code, err := post(t.Context(), conn.RenewalHTTPClient(), tokens, "body"); code != http.StatusOK {
		t.Errorf("a token request: %d, %v", code, err)
	}
	for _, path := range []string{"/api/v1/secrets", "/api/v1/namespaces/a/secrets/token", "/x/token"} {
		if code, err := post(t.Context(), conn.RenewalHTTPClient(), path, "body"); err == nil {
			t.Errorf("%s was sent and answered with %d", path, code)
		}
	}
	renewal = ""
	conn.Refresh()
	if _, err := post(t.Context(), conn.RenewalHTTPClient(), tokens, "body"); !errors.Is(err, member.ErrNoRenewalToken) {
		t.Errorf("got %v, want ErrNoRenewalToken", err)
	}
}

func TestADeadMemberCostsNothing(t *testing.T) {
	s := newServer(t)
	dead := func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := w.(http.Hijacker).Hijack()
		c.Close()
	}
	s.answer(dead)
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	fleet, conn := connect(t, s.URL, func(c *member.Config) { c.Clock = clock })
	var turns atomic.Int32
	fleet.Subscribe(func(string) { turns.Add(1) })
	turns.Store(0) // the connection that exists
	for range 10 {
		_, err := post(t.Context(), conn.HTTPClient(), "/x", "body")
		if err == nil {
			t.Fatal("a dead member answered")
		}
	}
	if n := s.count("POST /x"); n != 3 {
		t.Errorf("%d requests reached the dead member, want the 3 that opened the breaker", n)
	}
	_, err := post(t.Context(), conn.HTTPClient(), "/x", "body")
	var unavailable *member.UnavailableError
	if !errors.As(err, &unavailable) || unavailable.Cluster != "member1" || !strings.Contains(err.Error(), "member1 is not reachable") {
		t.Errorf("error is %v, want an UnavailableError that names the cluster", err)
	}
	if !conn.Health().Down || turns.Load() != 1 {
		t.Errorf("health %+v, %d changes, want down and one", conn.Health(), turns.Load())
	}

	// A patient client waits meanwhile; it is not known to wait before it got through.
	got := make(chan error, 1)
	go func() {
		_, err := get(t.Context(), conn.PatientHTTPClient(), "/watched")
		got <- err
	}()
	s.answer(func(http.ResponseWriter, *http.Request) {})
	eventually(t, "the probe finds the member back", func() bool {
		if clock.HasWaiters() {
			clock.Step(2 * time.Minute)
		}
		return !conn.Health().Down
	})
	if err := <-got; err != nil {
		t.Errorf("the patient client got %v", err)
	}
	if code, err := post(t.Context(), conn.HTTPClient(), "/x", "body"); code != http.StatusOK {
		t.Errorf("after it came back: %d, %v", code, err)
	}
	if turns.Load() != 2 {
		t.Errorf("%d changes of health, want 2", turns.Load())
	}
}

func TestWhatDoesNotOpenTheBreaker(t *testing.T) {
	// A handler that returns answers with 200, which a client may receive even though its time is over.
	hangs := func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	tests := map[string]struct {
		reason string
		handle http.HandlerFunc
		ctx    func(context.Context) context.Context
		down   bool
	}{
		"Refusals": {"a refusal is an answer", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, nil, false},
		"Errors":   {"an error is an answer", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, nil, false},
		"Extension": {"one extension API server that is away does not mean that the member is unavailable",
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, nil, false},
		"Gateway": {"a proxy that cannot reach it does", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, nil, true},
		"Cancelled": {"a caller that cancels the request", hangs,
			func(ctx context.Context) context.Context {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(10*time.Millisecond, cancel)
				return ctx
			}, false},
		"Hanging": {"a call that is not answered in time", hangs, nil, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.answer(tc.handle)
			_, conn := connect(t, s.URL, func(c *member.Config) {
				if name == "Hanging" { // the others are slow where the machine is
					c.RequestTimeout = 50 * time.Millisecond
				}
			})
			for range 4 {
				ctx := t.Context()
				if tc.ctx != nil {
					ctx = tc.ctx(ctx)
				}
				_, _ = get(ctx, conn.HTTPClient(), "/x")
			}
			if down := conn.Health().Down; down != tc.down {
				t.Errorf("%s: down is %t", tc.reason, down)
			}
		})
	}
}

func TestAMemberWithoutReadyzIsProbedByHealthz(t *testing.T) {
	s := newServer(t)
	_, conn := connect(t, s.URL, nil)
	for name, tc := range map[string]struct {
		readyz, healthz int
		ready           bool
	}{
		"ready":                 {http.StatusOK, http.StatusInternalServerError, true},
		"not ready":             {http.StatusInternalServerError, http.StatusOK, false},
		"healthy, an old one":   {http.StatusNotFound, http.StatusOK, true},
		"unhealthy, an old one": {http.StatusNotFound, http.StatusInternalServerError, false},
		"neither":               {http.StatusNotFound, http.StatusNotFound, false},
	} {
		s.answer(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(map[string]int{"/readyz": tc.readyz, "/healthz": tc.healthz}[r.URL.Path])
			_, _ = io.WriteString(w, "ok")
		})
		if ready, message, err := conn.Probe(t.Context()); err != nil || ready != tc.ready || ready == (message != "") {
			t.Errorf("%s: ready is %v, %q, %v", name, ready, message, err)
		}
	}
}

// TestNonsenseIsNoSuccess: something in front of the member answers in its place.
// TestACredentialThatLostItsRights: the connection on which the member was identified stays open, and /readyz needs no right. A refused
// request has the next probe read whether the credential has the right to identify the member, and no other probe does.
func TestACredentialThatLostItsRights(t *testing.T) {
	const identity = "/api/v1/namespaces/kube-system"
	s := newServer(t)
	allowed, bounded := atomic.Bool{}, atomic.Bool{}
	allowed.Store(true)
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz":
			_, _ = io.WriteString(w, "ok")
		case !allowed.Load(), bounded.Load() && r.URL.Path != identity:
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
		default:
			_, _ = io.WriteString(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"id"}}`)
		}
	})
	fleet, conn := connect(t, s.URL, nil)
	known := cluster(s.URL)
	known.Spec.ID = "id"
	if err := fleet.Upsert(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	probes := 0
	probe := func(reason string, reads int) {
		t.Helper()
		probes++
		var ready bool
		var err error
		var access *clusterv1alpha1.AccessError
		eventually(t, "a probe is answered in time", func() bool {
			ready, _, err = conn.Probe(t.Context())
			access, _ = errors.AsType[*clusterv1alpha1.AccessError](err)
			return err == nil || access != nil
		})
		if ready != (reason == "") || reason != "" && (access == nil || access.Reason != reason || !strings.Contains(access.Message, "flagship join")) {
			t.Errorf("probe %d: ready is %t, %v, want the reason %q", probes, ready, err, reason)
		}
		// The client opens another connection if a request took long, and the identity is read on each.
		if n, more := s.count("GET "+identity), s.connections()-1; n < reads || n > reads+2*more {
			t.Errorf("probe %d: the identity was read %d times on %d connections, want %d on one", probes, n, more+1, reads)
		}
	}
	send := func(want int) {
		t.Helper()
		var code int
		var err error
		eventually(t, "a request is answered in time", func() bool {
			code, err = post(t.Context(), conn.HTTPClient(), "/x", "body")
			return err == nil
		})
		if code != want {
			t.Fatalf("a request is answered with %d, want %d", code, want)
		}
	}
	probe("", 1) // on the new connection
	probe("", 1)
	allowed.Store(false)
	probe("", 1)
	send(http.StatusForbidden)
	probe(clusterv1alpha1.CredentialsLackRightsReason, 2)
	probe(clusterv1alpha1.CredentialsLackRightsReason, 3)
	allowed.Store(true)
	probe("", 4)
	probe("", 4)
	bounded.Store(true)
	send(http.StatusForbidden)
	probe("", 5)
	probe("", 5)

	s.CloseClientConnections()
	allowed.Store(false)
	eventually(t, "a new connection is refused", func() bool {
		_, _, err := conn.Probe(t.Context())
		access, _ := errors.AsType[*clusterv1alpha1.AccessError](err)
		return access != nil && access.Reason == clusterv1alpha1.CredentialsLackRightsReason
	})
}

func TestNonsenseIsNoSuccess(t *testing.T) {
	s := newServer(t)
	_, conn := connect(t, s.URL, nil)
	maps := conn.Dynamic().Resource(configMaps).Namespace("a")
	for name, answer := range map[string]http.HandlerFunc{
		"page":     func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>Log in</html>") },
		"nothing":  func(http.ResponseWriter, *http.Request) {},
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) },
		"another kind": func(w http.ResponseWriter, _ *http.Request) {
			reply(w, http.StatusOK, map[string]any{"kind": "Pod", "apiVersion": "v1", "metadata": map[string]any{"name": "x"}})
		},
	} {
		s.answer(answer)
		if _, err := maps.List(t.Context(), metav1.ListOptions{}); err == nil {
			t.Errorf("%s is a list", name)
		}
		if _, err := maps.Get(t.Context(), "b", metav1.GetOptions{}); err == nil {
			t.Errorf("%s is an object", name)
		}
		if _, err := maps.Patch(t.Context(), "b", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}); err == nil {
			t.Errorf("%s is a patched object", name)
		}
		if err := maps.Delete(t.Context(), "b", metav1.DeleteOptions{}); err == nil {
			t.Errorf("%s is a deletion", name)
		}
		if _, err := conn.Mapping(t.Context(), schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}); err == nil || meta.IsNoMatchError(err) {
			t.Errorf("%s means that a kind is not served: %v", name, err)
		}
		if ready, _, err := conn.Probe(t.Context()); ready && err == nil {
			t.Errorf("%s is ready", name)
		}
	}
}

// TestAnAnswerWithoutEndIsCutOff: a member that never stops answering fills no memory.
func TestAnAnswerWithoutEndIsCutOff(t *testing.T) {
	s := newServer(t)
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		for chunk := make([]byte, 1<<20); r.Context().Err() == nil; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	_, conn := connect(t, s.URL, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, conn.RESTConfig().Host+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := conn.HTTPClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	read, err := io.Copy(io.Discard, resp.Body)
	if !bounds.IsTooMuch(err) {
		t.Errorf("after %d bytes: %v", read, err)
	}
}

func TestCallsInFlightAreBounded(t *testing.T) {
	s := newServer(t)
	var now, most atomic.Int32
	release := make(chan struct{})
	s.answer(func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
		now.Add(-1)
	})
	_, conn := connect(t, s.URL, func(c *member.Config) { c.MaxInFlight = 3 })
	client := conn.HTTPClient()
	done := make(chan struct{})
	for range 10 {
		go func() {
			_, _ = get(t.Context(), client, "/x")
			done <- struct{}{}
		}()
	}
	eventually(t, "three calls are in flight", func() bool { return now.Load() == 3 })
	// A watch is no call: it gets through.
	go func() { _, _ = get(t.Context(), client, "/x?watch=true") }()
	eventually(t, "the watch got through", func() bool { return now.Load() == 4 })
	close(release)
	for range 10 {
		<-done
	}
	if most.Load() != 4 {
		t.Errorf("%d at a time, want 3 calls and a watch", most.Load())
	}
}

func TestAClusterThatMovesKeepsItsConnection(t *testing.T) {
	before, after := newServer(t), newServer(t)
	fleet, conn := connect(t, before.URL, nil)
	if code, err := get(t.Context(), conn.HTTPClient(), "/x"); code != http.StatusOK {
		t.Fatal(code, err)
	}
	if err := fleet.Upsert(t.Context(), cluster(after.URL+"/behind/a/path/")); err != nil {
		t.Fatal(err)
	}
	if code, err := get(t.Context(), conn.HTTPClient(), "/x"); code != http.StatusOK {
		t.Fatal(code, err)
	}
	if n := after.count("GET /behind/a/path/x"); n != 1 {
		t.Errorf("%d requests at the new address", n)
	}
	same, _ := fleet.Get("member1")
	if same != conn {
		t.Error("the connection is another one")
	}
	renewed := cluster(after.URL)
	renewed.UID = "u2"
	if err := fleet.Upsert(t.Context(), renewed); err != nil {
		t.Fatal(err)
	}
	if other, _ := fleet.Get("member1"); other == conn {
		t.Error("a Cluster that was deleted and created again has the old connection")
	}
	pull := cluster(after.URL)
	pull.Spec.SyncMode = clusterv1alpha1.Pull
	if err := fleet.Upsert(t.Context(), pull); err != nil {
		t.Fatal(err)
	}
	if _, ok := fleet.Get("member1"); ok {
		t.Error("a pull member is dialled")
	}
}

func TestAddressesThatCannotBe(t *testing.T) {
	for name, endpoint := range map[string]string{"Empty": "", "OtherScheme": "ftp://10.0.0.1", "NotAURL": "https://[::1"} {
		t.Run(name, func(t *testing.T) {
			_, conn := connect(t, endpoint, nil)
			if _, err := get(t.Context(), conn.HTTPClient(), "/x"); err == nil {
				t.Errorf("a request to %q went somewhere", endpoint)
			}
		})
	}
}
