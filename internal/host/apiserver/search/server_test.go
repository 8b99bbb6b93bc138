package search

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/inprocess"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/merge"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const configMaps = "/api/v1/namespaces/shop/configmaps"

// change is one event in the history of a member.
type change struct {
	kind   string
	at     int
	object map[string]any
}

// memberAPI answers as the API server of a member with ConfigMaps, which it keeps with their history.
type memberAPI struct {
	mu      sync.Mutex
	at      int
	history []change
	oldest  int // a watch from an earlier version is refused
	denied  error
	broken  bool // it answers a list of one object only
	changed chan struct{}
	writes  []string
	open    int // watches
	// endless is that a watch has an event without an end, and sent the bytes of each of these.
	endless bool
	sent    []int
}

// withoutEnd sends an event until the reader has gone.
func (m *memberAPI) withoutEnd(w io.Writer) {
	m.mu.Unlock()
	text, sent := []byte(`{"type":"ADDED","object":{"kind":"`+strings.Repeat("x", 1<<16)), 0
	for n, err := w.Write(text); err == nil && sent < 1<<28; n, err = w.Write(text[len(text)-1<<16:]) {
		sent += n
	}
	m.mu.Lock()
	m.sent = append(m.sent, sent)
}

func (m *memberAPI) watches() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

func newMember() *memberAPI { return &memberAPI{at: 100, changed: make(chan struct{})} }

func (m *memberAPI) change(kind, namespace, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at++
	m.history = append(m.history, change{kind, m.at, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": namespace, "name": name, "resourceVersion": strconv.Itoa(m.at), "managedFields": []any{map[string]any{}}},
	}})
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memberAPI) deny(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.denied = err
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memberAPI) breakOff(broken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = broken
}

// objects are the present ones, sorted by name.
func (m *memberAPI) objects() (list []map[string]any) {
	present := map[string]map[string]any{}
	for _, c := range m.history {
		name := c.object["metadata"].(map[string]any)["name"].(string)
		if present[name] = c.object; c.kind == "DELETED" {
			delete(present, name)
		}
	}
	names := []string{}
	for name := range present {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		list = append(list, present[name])
	}
	return list
}

func (m *memberAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	encode := json.NewEncoder(w).Encode
	query := r.URL.Query()
	if m.denied != nil {
		fail(w, m.denied)
		return
	}
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case r.Method != http.MethodGet:
		text, _ := io.ReadAll(r.Body)
		m.writes = append(m.writes, r.Method+" "+r.URL.Path+" "+string(text))
		_ = encode(m.objects()[0])
	case query.Has("watch"):
		m.open++
		defer func() { m.open-- }()
		if m.endless {
			m.withoutEnd(w)
			return
		}
		from, _ := strconv.Atoi(query.Get("resourceVersion"))
		if from < m.oldest {
			_ = encode(map[string]any{"type": "ERROR", "object": apierrors.NewResourceExpired("too old").Status()})
			return
		}
		for m.denied == nil && r.Context().Err() == nil {
			for _, c := range m.history {
				if c.at > from {
					from = c.at
					_ = encode(map[string]any{"type": c.kind, "object": c.object})
				}
			}
			w.(http.Flusher).Flush()
			changed := m.changed
			m.mu.Unlock()
			select {
			case <-changed:
			case <-r.Context().Done():
			}
			m.mu.Lock()
		}
	case name == "configmaps":
		m.list(w, r)
	default:
		for _, object := range m.objects() {
			if object["metadata"].(map[string]any)["name"] == name {
				_ = encode(object)
				return
			}
		}
		fail(w, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name))
	}
}

func (m *memberAPI) list(w http.ResponseWriter, r *http.Request) {
	objects := m.objects()
	after, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	metadata := map[string]any{"resourceVersion": strconv.Itoa(m.at)}
	if m.broken && limit != 1 {
		fail(w, apierrors.NewInternalError(errors.New("it is broken")))
		return
	}
	if limit > 0 && after+limit < len(objects) {
		metadata["continue"] = strconv.Itoa(after + limit)
		objects = objects[:after+limit]
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": objects[after:]})
}

// fleetOf is a control plane with members and one set of registries.
type fleetOf struct {
	t       *testing.T
	members map[string]*memberAPI
	hub     *inprocess.Transport
	// arrived counts the requests to members.
	arrived atomic.Int32
	// clock is that of all servers.
	clock *clocktesting.FakePassiveClock

	mu       sync.Mutex
	selected map[string][]string
	changed  chan struct{}
	notReady string
}

func startFleet(t *testing.T, members map[string]*memberAPI) *fleetOf {
	t.Helper()
	f := &fleetOf{t: t, members: members, clock: clocktesting.NewFakePassiveClock(time.Now()), selected: map[string][]string{}, changed: make(chan struct{})}
	for name := range members {
		f.selected[name] = nil
	}
	caller := inprocess.Authenticate(nil)
	f.hub = inprocess.NewTransport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who, _, err := caller.AuthenticateRequest(r); err != nil || !strings.HasPrefix(who.User.GetName(), "alice") || len(r.Header["Authorization"]) > 0 {
			t.Errorf("%s is sent as %v: %v", r.URL, who, err)
		}
		rest, proxied := strings.CutPrefix(r.URL.Path, "/apis/cluster.karmada.io/v1alpha1/clusters/")
		if !proxied {
			fmt.Fprintf(w, `{"kind":"HubAnswer","path":%q}`, r.URL.Path)
			return
		}
		name, path, _ := strings.Cut(rest, "/proxy")
		r.URL.Path = path
		f.arrived.Add(1)
		f.members[name].ServeHTTP(w, r)
	}), nil)
	t.Cleanup(f.hub.Close)
	return f
}

// Clusters implements Registries.
func (f *fleetOf) Clusters(_ context.Context, resource schema.GroupVersionResource) (map[string][]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	own := map[string][]string{}
	for name, namespaces := range f.selected {
		if resource.Resource == "configmaps" {
			own[name] = namespaces
		}
	}
	return own, nil
}

// Kind implements Registries.
func (f *fleetOf) Kind(_ context.Context, resource schema.GroupVersionResource) (string, error) {
	return map[string]string{"configmaps": "ConfigMap", "pods": "Pod"}[resource.Resource], nil
}

// Changed implements Registries.
func (f *fleetOf) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// Ready implements Registries.
func (f *fleetOf) Ready(_ context.Context, cluster string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cluster != f.notReady
}

func (f *fleetOf) change(selected map[string][]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.selected = selected
	close(f.changed)
	f.changed = make(chan struct{})
}

// replica is a new server, as another replica or one that was restarted.
func (f *fleetOf) replica() *httptest.Server { return f.serve(f.server().ServeHTTP) }

// server is one that has been running for a while.
func (f *fleetOf) server() *Server {
	s := f.starting()
	f.clock.SetTime(f.clock.Now().Add(time.Minute))
	return s
}

func (f *fleetOf) starting() *Server {
	s := New(Config{Registries: func() Registries { return f }, Clock: f.clock}, func() *inprocess.Transport { return f.hub })
	s.patience, s.pause = 2*time.Second, time.Millisecond
	return s
}

// serve serves requests of a user.
func (f *fleetOf) serve(handle http.HandlerFunc) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := request.WithUser(r.Context(), &user.DefaultInfo{Name: "alice" + r.Header.Get("Alias")})
		handle(w, r.WithContext(warning.WithWarningRecorder(ctx, header{w})))
	}))
	f.t.Cleanup(server.Close)
	f.t.Cleanup(server.CloseClientConnections)
	return server
}

type header struct{ http.ResponseWriter }

func (h header) AddWarning(_, text string) { h.Header().Add("Warning", text) }

const (
	proxying = "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy"
	cached   = "/apis/search.karmada.io/v1alpha1/search/cache"
)

// get returns the answer to a request.
func get(t *testing.T, server *httptest.Server, method, path, body string) (code int, header http.Header, object map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&object); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, object
}

// origin is an object as CLUSTER/NAME.
func origin(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return fmt.Sprintf("%v/%v", annotations["resource.karmada.io/cached-from-cluster"], metadata["name"])
}

func origins(list map[string]any) (found []string) {
	items, _ := list["items"].([]any)
	for _, item := range items {
		found = append(found, origin(item.(map[string]any)))
	}
	return found
}

func expectOrigins(t *testing.T, list map[string]any, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, origins(list)); diff != "" {
		t.Errorf("objects (-want +got):\n%s\n%v", diff, list)
	}
}

func at(list map[string]any) merge.Version {
	v, _ := merge.ParseVersion(merge.VersionOf(list))
	return v
}

func two(t *testing.T) (*fleetOf, *memberAPI, *memberAPI) {
	t.Helper()
	a, b := newMember(), newMember()
	a.change("ADDED", "shop", "one")
	a.change("ADDED", "shop", "two")
	b.change("ADDED", "shop", "three")
	return startFleet(t, map[string]*memberAPI{"a": a, "b": b}), a, b
}

func TestList(t *testing.T) {
	f, a, b := two(t)
	server := f.replica()
	_, _, list := get(t, server, "GET", proxying+configMaps, "")
	expectOrigins(t, list, "a/one", "a/two", "b/three")
	if diff := cmp.Diff(merge.Version{"a": "102", "b": "101"}, at(list)); diff != "" {
		t.Errorf("version (-want +got):\n%s", diff)
	}
	first := list["items"].([]any)[0].(map[string]any)
	if got := at(first); got["a"] != "101" || len(got) != 1 {
		t.Errorf("the version of an object is %v", got)
	}

	var pages []string
	for path := proxying + configMaps + "?limit=2"; path != ""; {
		_, _, page := get(t, server, "GET", path, "")
		if got := at(page); got["a"] != "102" || got["b"] != "101" {
			t.Errorf("the version of a page is %v, want that of the whole list", got)
		}
		pages = append(pages, strings.Join(origins(page), " "))
		path = ""
		if token, _ := page["metadata"].(map[string]any)["continue"].(string); token != "" {
			path = proxying + configMaps + "?limit=2&continue=" + token
			server = f.replica() // any replica continues
		}
	}
	if diff := cmp.Diff([]string{"a/one a/two", "b/three"}, pages); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}

	b.deny(apierrors.NewServiceUnavailable("it is down"))
	code, header, list := get(t, server, "GET", proxying+configMaps, "")
	if expectOrigins(t, list, "a/one", "a/two"); code != http.StatusOK || !strings.Contains(header.Get("Warning"), "cluster b is missing: it is down") || at(list)["b"] != "" {
		t.Errorf("with a member that is down: %d, %v, %v", code, header, list)
	}
	a.deny(apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil))
	if code, _, status := get(t, server, "GET", proxying+configMaps, ""); code != http.StatusServiceUnavailable {
		t.Errorf("with one that is down and one that refuses: %d, %v", code, status)
	}
	b.deny(apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil))
	if code, _, status := get(t, server, "GET", proxying+configMaps, ""); code != http.StatusForbidden {
		t.Errorf("with members that refuse: %d, %v", code, status)
	}
}

// TestNamespaces: a registry that selects a namespace shows no objects of others, whatever the user may read.
func TestNamespaces(t *testing.T) {
	f, a, _ := two(t)
	a.change("ADDED", "other", "hidden")
	f.change(map[string][]string{"a": {"shop"}, "b": nil})
	server := f.replica()
	_, _, list := get(t, server, "GET", proxying+"/api/v1/configmaps", "")
	expectOrigins(t, list, "a/one", "a/two", "b/three")
	f.change(map[string][]string{"a": {"shop"}})
	if _, _, answer := get(t, server, "GET", proxying+"/api/v1/namespaces/other/configmaps", ""); answer["path"] != "/api/v1/namespaces/other/configmaps" {
		t.Errorf("a namespace that no registry selects: %v, want the control plane's own", answer)
	}
}

func TestGet(t *testing.T) {
	f, a, b := two(t)
	server := f.replica()
	_, _, found := get(t, server, "GET", proxying+configMaps+"/three", "")
	if origin(found) != "b/three" || at(found)["b"] != "101" {
		t.Errorf("got %v", found)
	}
	if code, _, _ := get(t, server, "GET", proxying+configMaps+"/none", ""); code != http.StatusNotFound {
		t.Errorf("an object that is nowhere: %d", code)
	}
	a.change("ADDED", "shop", "three")
	if code, _, status := get(t, server, "GET", proxying+configMaps+"/three", ""); code != http.StatusConflict || !strings.Contains(status["message"].(string), "in the clusters a, b") {
		t.Errorf("an object of two clusters: %d, %v", code, status)
	}
	b.deny(apierrors.NewServiceUnavailable("it is down"))
	code, header, _ := get(t, server, "GET", proxying+configMaps+"/one", "")
	if code != http.StatusOK || !strings.Contains(header.Get("Warning"), "cluster b is missing") {
		t.Errorf("an object while another member is down: %d, %v", code, header)
	}
	if code, _, status := get(t, server, "GET", proxying+configMaps+"/none", ""); code != http.StatusServiceUnavailable {
		t.Errorf("whether an object exists is not known: %d, %v", code, status)
	}
}

// TestEverywhere: clusters/*/proxy merges as the search API does, but each object has the version of its own cluster, and a limit is one of each.
func TestEverywhere(t *testing.T) {
	f, a, b := two(t)
	server := f.serve(func(w http.ResponseWriter, r *http.Request) {
		f.server().Everywhere(r.URL.Path, []string{"a", "b"}).ServeHTTP(w, r)
	})
	_, _, list := get(t, server, "GET", configMaps, "")
	expectOrigins(t, list, "a/one", "a/two", "b/three")
	if first := list["items"].([]any)[0].(map[string]any); merge.VersionOf(first) != "101" || merge.VersionOf(list) != "" {
		t.Errorf("the list is %v", list)
	}
	_, _, list = get(t, server, "GET", configMaps+"?limit=1", "")
	expectOrigins(t, list, "a/one", "b/three")
	token, _ := list["metadata"].(map[string]any)["continue"].(string)
	_, _, list = get(t, server, "GET", configMaps+"?limit=1&continue="+token, "")
	expectOrigins(t, list, "a/two")
	if token, more := list["metadata"].(map[string]any)["continue"]; more {
		t.Errorf("the last page has the token %v", token)
	}
	if _, _, found := get(t, server, "GET", configMaps+"/three", ""); origin(found) != "b/three" || merge.VersionOf(found) != "101" {
		t.Errorf("got %v", found)
	}
	b.deny(apierrors.NewServiceUnavailable("it is down"))
	code, header, list := get(t, server, "GET", configMaps, "")
	if expectOrigins(t, list, "a/one", "a/two"); code != http.StatusOK || !strings.Contains(header.Get("Warning"), "cluster b is missing: it is down") {
		t.Errorf("with a member that is down: %d, %v", code, header)
	}
	for path, want := range map[string]int{
		configMaps + "?continue=other": http.StatusBadRequest, configMaps + "?watch=true": http.StatusMethodNotAllowed,
		configMaps + "?continue=" + merge.Version{"gone": "1"}.String(): http.StatusGone, configMaps + "/three/proxy": http.StatusMethodNotAllowed,
	} {
		if code, _, status := get(t, server, "GET", path, ""); code != want {
			t.Errorf("%s: %d, %v, want %d", path, code, status, want)
		}
	}
	if code, _, own := get(t, server, "GET", "/version", ""); code != http.StatusOK || own["kind"] != "HubAnswer" || own["path"] != "/version" {
		t.Errorf("discovery: %d, %v", code, own)
	}
	if code, _, status := get(t, server, "POST", "/version", "{}"); code != http.StatusMethodNotAllowed {
		t.Errorf("a write of no object: %d, %v", code, status)
	}
	if code, _, _ := get(t, server, "PUT", configMaps+"/one", "{}"); code != http.StatusMethodNotAllowed || len(a.writes) > 0 {
		t.Errorf("an update: %d, %v", code, a.writes)
	}
}

func TestSearchCache(t *testing.T) {
	f, _, _ := two(t)
	server := f.replica()
	_, _, list := get(t, server, "GET", cached+configMaps, "")
	expectOrigins(t, list, "a/one", "a/two", "b/three")
	if text, _ := json.Marshal(list); strings.Contains(string(text), "managedFields") {
		t.Errorf("objects are not reduced: %s", text)
	}
	for path, want := range map[string]int{
		cached + configMaps + "?watch=true": http.StatusMethodNotAllowed, cached + "/api/v1/moons": http.StatusNotFound, cached + "/version": http.StatusNotFound,
		cached + proxying + "/api/v1/pods": http.StatusBadRequest, cached + "/api/v1/namespaces/shop/pods/web": http.StatusNotFound,
	} {
		if code, _, status := get(t, server, "GET", path, ""); code != want {
			t.Errorf("%s: %d, %v, want %d", path, code, status, want)
		}
	}
}

// TestUnselectedListsAreEmpty: clients of Karmada list a kind before a registry selects it, and after none does any more.
func TestUnselectedListsAreEmpty(t *testing.T) {
	f, _, _ := two(t)
	server := f.replica()
	for _, path := range []string{cached + "/api/v1/pods", cached + "/api/v1/namespaces/shop/pods"} {
		code, header, list := get(t, server, "GET", path, "")
		want := map[string]any{"apiVersion": "v1", "kind": "PodList", "items": []any{}, "metadata": map[string]any{"resourceVersion": ""}}
		if diff := cmp.Diff(want, list); code != http.StatusOK || diff != "" {
			t.Errorf("%s: %d (-want, +got)\n%s", path, code, diff)
		}
		if text := header.Get("Warning"); !strings.Contains(text, "no ResourceRegistry selects /v1, Resource=pods") {
			t.Errorf("%s has the warning %q", path, text)
		}
	}
	f.change(map[string][]string{})
	if code, _, list := get(t, server, "GET", cached+configMaps, ""); code != http.StatusOK || list["kind"] != "ConfigMapList" {
		t.Errorf("a list after the registries are gone: %d, %v", code, list)
	}
}

func TestWhatIsNotSelectedIsOfTheControlPlane(t *testing.T) {
	f, _, _ := two(t)
	server := f.replica()
	for _, path := range []string{"/api", "/version", "/api/v1/pods", "/apis/apps/v1/namespaces/shop/deployments/web"} {
		if _, _, answer := get(t, server, "GET", proxying+path, ""); answer["path"] != path {
			t.Errorf("%s is answered by %v", path, answer)
		}
	}
	// A client that has a version of members cannot go on with the control plane's.
	if code, _, _ := get(t, server, "GET", proxying+"/api/v1/pods?resourceVersion="+merge.Version{"a": "1"}.String(), ""); code != http.StatusGone {
		t.Errorf("with a version of members: %d, want that it is expired", code)
	}
}

func TestWrites(t *testing.T) {
	f, _, b := two(t)
	server := f.replica()
	_, _, found := get(t, server, "GET", proxying+configMaps+"/three", "")
	text, _ := json.Marshal(found)
	code, _, written := get(t, server, "PUT", proxying+configMaps+"/three", string(text))
	if code != http.StatusOK || origin(written) != "b/three" || at(written)["b"] != "101" {
		t.Errorf("the answer to an update is %d, %v", code, written)
	}
	if len(b.writes) != 1 || !strings.Contains(b.writes[0], `"resourceVersion":"101"`) || strings.Contains(b.writes[0], "cached-from") {
		t.Errorf("the member got %v", b.writes)
	}
	for method, want := range map[string]int{"POST": http.StatusMethodNotAllowed, "DELETE": http.StatusMethodNotAllowed} {
		if code, _, _ := get(t, server, method, proxying+configMaps, "{}"); code != want {
			t.Errorf("%s of the collection: %d", method, code)
		}
	}
	if code, _, _ := get(t, server, "DELETE", proxying+configMaps+"/none", ""); code != http.StatusNotFound || len(b.writes) != 1 {
		t.Errorf("deleting what is nowhere: %d, %v", code, b.writes)
	}
}

// stream is an open watch.
type stream struct {
	t       *testing.T
	body    io.Closer
	scanner *bufio.Scanner
}

func watch(t *testing.T, server *httptest.Server, query string) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+proxying+"/api/v1/configmaps?watch=true&"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		t.Fatalf("%s: %s", response.Status, text)
	}
	return &stream{t, response.Body, bufio.NewScanner(response.Body)}
}

// next is the next event, as TYPE CLUSTER/NAME.
func (s *stream) next() (event string, v merge.Version) {
	s.t.Helper()
	if !s.scanner.Scan() {
		s.t.Fatalf("the watch has ended: %v", s.scanner.Err())
	}
	var e struct {
		Type   string
		Object map[string]any
	}
	if err := json.Unmarshal(s.scanner.Bytes(), &e); err != nil {
		s.t.Fatal(err)
	}
	if e.Type == "ERROR" {
		return fmt.Sprintf("ERROR %v", e.Object["reason"]), nil
	}
	if e.Type == "BOOKMARK" {
		return "BOOKMARK", at(e.Object)
	}
	return e.Type + " " + origin(e.Object), at(e.Object)
}

func (s *stream) expect(want ...string) (last merge.Version) {
	s.t.Helper()
	for range want {
		var event string
		event, last = s.next()
		i := slices.Index(want, event)
		if i < 0 {
			s.t.Fatalf("got %s, want one of %v", event, want)
		}
		want[i] = "" // events of different clusters have no order
	}
	return last
}

// TestWatch: events of all clusters, from a version on, which every replica can continue.
func TestWatch(t *testing.T) {
	f, a, b := two(t)
	_, _, list := get(t, f.replica(), "GET", proxying+configMaps, "")
	w := watch(t, f.replica(), "resourceVersion="+merge.VersionOf(list))
	a.change("MODIFIED", "shop", "one")
	v := w.expect("MODIFIED a/one")
	if diff := cmp.Diff(merge.Version{"a": "103", "b": "101"}, v); diff != "" {
		t.Errorf("version (-want +got):\n%s", diff)
	}
	b.change("DELETED", "shop", "three")
	v = w.expect("DELETED b/three")
	_ = w.body.Close()

	// What happens while there is no watch.
	a.change("ADDED", "shop", "four")
	b.change("ADDED", "shop", "five")
	w = watch(t, f.replica(), "resourceVersion="+v.String())
	w.expect("ADDED a/four", "ADDED b/five")
}

// TestAMemberThatGoesAwayAndReturns ends no watch: the events that the client has missed follow.
func TestAMemberThatGoesAwayAndReturns(t *testing.T) {
	f, a, b := two(t)
	_, _, list := get(t, f.replica(), "GET", proxying+configMaps, "")
	w := watch(t, f.replica(), "resourceVersion="+merge.VersionOf(list))
	b.change("ADDED", "shop", "four")
	w.expect("ADDED b/four")
	b.deny(apierrors.NewServiceUnavailable("it is down"))
	a.change("MODIFIED", "shop", "one")
	w.expect("MODIFIED a/one")
	b.change("MODIFIED", "shop", "three")
	b.deny(nil)
	w.expect("MODIFIED b/three")
}

// TestOpenWatchesOfMembersAreCounted: the metric is the number of watches that the members serve for users.
func TestOpenWatchesOfMembersAreCounted(t *testing.T) {
	f, a, b := two(t)
	s := f.server()
	server := f.serve(s.ServeHTTP)
	expect := func(inA, inB int) {
		t.Helper()
		fleettest.Eventually(t, fmt.Sprintf("%d and %d watches are open and counted", inA, inB), func() bool {
			return a.watches() == inA && b.watches() == inB && testutil.ToFloat64(s.watches) == float64(inA+inB)
		})
	}
	_, _, list := get(t, server, "GET", proxying+configMaps, "")
	expect(0, 0)
	first := watch(t, server, "resourceVersion="+merge.VersionOf(list))
	expect(1, 1)
	second := watch(t, server, "resourceVersion="+merge.VersionOf(list))
	expect(2, 2)
	b.deny(apierrors.NewServiceUnavailable("it is down"))
	expect(2, 0)
	b.deny(nil)
	expect(2, 2)
	_ = second.body.Close()
	expect(1, 1)
	_ = first.body.Close()
	expect(0, 0)
}

// TestAMemberThatIsDownAtFirst: its objects follow when it returns, as new ones, and a bookmark has its version then.
func TestAMemberThatIsDownAtFirst(t *testing.T) {
	f, _, b := two(t)
	b.deny(apierrors.NewServiceUnavailable("it is down"))
	_, _, list := get(t, f.replica(), "GET", proxying+configMaps, "")
	w := watch(t, f.replica(), "allowWatchBookmarks=true&resourceVersion="+merge.VersionOf(list))
	b.deny(nil)
	between := w.expect("ADDED b/three")
	if diff := cmp.Diff(merge.Version{"a": "102", "b": "101"}, w.expect("BOOKMARK")); diff != "" {
		t.Errorf("version (-want +got):\n%s", diff)
	}
	// Who has only some of the objects of a cluster would keep those that are deleted meanwhile.
	if code, _, status := get(t, f.replica(), "GET", proxying+configMaps+"?watch=true&resourceVersion="+between.String(), ""); code != http.StatusGone {
		t.Errorf("continuing in the middle: %d, %v", code, status)
	}
}

func TestClustersThatComeAndGo(t *testing.T) {
	f, _, b := two(t)
	f.change(map[string][]string{"a": nil})
	_, _, list := get(t, f.replica(), "GET", proxying+configMaps, "")
	w := watch(t, f.replica(), "resourceVersion="+merge.VersionOf(list))
	f.change(map[string][]string{"a": nil, "b": nil})
	w.expect("ADDED b/three")
	b.change("MODIFIED", "shop", "three")
	v := w.expect("MODIFIED b/three")
	// Only a new list removes the objects of a cluster that is not read any more.
	f.change(map[string][]string{"b": nil})
	w.expect("ERROR " + string(metav1.StatusReasonExpired))
	if w.scanner.Scan() {
		t.Error("the watch has not ended")
	}
	if code, _, _ := get(t, f.replica(), "GET", proxying+configMaps+"?watch=true&resourceVersion="+v.String(), ""); code != http.StatusGone {
		t.Errorf("continuing without the cluster: %d", code)
	}
}

func TestVersionsThatCannotBeContinued(t *testing.T) {
	f, a, _ := two(t)
	a.oldest = 102
	w := watch(t, f.replica(), "resourceVersion="+merge.Version{"a": "100", "b": "101"}.String())
	w.expect("ERROR " + string(metav1.StatusReasonExpired))
	for name, v := range map[string]string{
		"restored from a backup":      merge.Version{"a": "5000", "b": "101"}.String(),
		"a version of one server":     "17",
		"another cluster":             merge.Version{"c": "1"}.String(),
		"some objects of a cluster":   merge.Version{"a": ""}.String(),
		"text that is no version":     "xyz",
		"a version that is no text":   "eyJhIjoxfQ",
		"an object with a null in it": "bnVsbA",
	} {
		if code, _, status := get(t, f.replica(), "GET", proxying+configMaps+"?watch=true&resourceVersion="+v, ""); code != http.StatusGone {
			t.Errorf("%s: %d, %v, want that it is expired", name, code, status)
		}
	}
	if code, _, _ := get(t, f.replica(), "GET", proxying+configMaps+"?watch=true&sendInitialEvents=true", ""); code != http.StatusUnprocessableEntity {
		t.Errorf("a watch that lists: %d, want the answer that has clients list", code)
	}
}
