package member_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// TestAnAnswerHasTheBoundOfItsRequest in bytes and in values, compressed or not.
func TestAnAnswerHasTheBoundOfItsRequest(t *testing.T) {
	const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop"},"data":`
	const list = `{"apiVersion":"v1","kind":"ConfigMapList","items":`
	for name, c := range map[string]struct {
		path, head string
		limit      bounds.Limit
		compressed bool
	}{
		"an object":          {"/api/v1/namespaces/shop/configmaps/a", object, bounds.Object.Piece, false},
		"a list":             {"/api/v1/namespaces/shop/configmaps", list, bounds.Page.Piece, true},
		"groups":             {"/apis", `{"kind":"APIGroupList","apiVersion":"v1","groups":`, bounds.Discovery.Piece, true},
		"resources":          {"/apis/apps/v1", `{"kind":"APIResourceList","apiVersion":"v1","resources":`, bounds.Discovery.Piece, true},
		"an index":           {"/openapi/v3", `{"paths":`, bounds.Document.Piece, false},
		"an event":           {"/api/v1/configmaps?watch=1", `{"type":"ADDED","object":`, bounds.Event.Piece, false},
		"an event, protobuf": {"/api/v1/configmaps?watch=1", "\x01\x00\x00\x00", bounds.Event.Piece, false},
	} {
		for what, filled := range map[string]string{
			"bytes":  `"` + strings.Repeat("x", int(c.limit.Bytes)) + `"}`,
			"values": "[" + strings.Repeat("{},", int(c.limit.Values)) + "{}]}",
			"little": "null}",
		} {
			s := newServer(t)
			s.answer(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if accepts := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"); accepts != c.compressed {
					t.Errorf("%s: compressed answers are accepted: %v", name, accepts)
				} else if accepts {
					w.Header().Set("Content-Encoding", "gzip")
					compressed := gzip.NewWriter(w)
					defer compressed.Close()
					_, _ = io.WriteString(compressed, c.head+filled)
					return
				}
				_, _ = io.WriteString(w, c.head+filled)
			})
			_, conn := connect(t, s.URL, nil)
			read, err := readAll(t.Context(), conn, c.path)
			if fits := what == "little"; fits != (err == nil) && !strings.HasSuffix(name, "protobuf") || read > c.limit.Bytes || err != nil && !strings.Contains(err.Error(), "more than") && !fits {
				t.Errorf("%s, %s: %d bytes, %v", name, what, read, err)
			}
		}
	}
}

// TestVersionsOfGroupsHaveABound: a client sends a request for each, all at once.
func TestVersionsOfGroupsHaveABound(t *testing.T) {
	s := newServer(t)
	_, conn := connect(t, s.URL, nil)
	many := "[" + strings.Repeat(`{"version":"v1"},`, bounds.GroupVersions) + `{"version":"v1"}]`
	for path, body := range map[string]string{
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"a","versions":` + many + `}]}`,
		"/api":  `{"kind":"APIVersions","versions":["` + strings.Repeat(`v1","`, bounds.GroupVersions) + `v2"]}`,
	} {
		s.answer(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		if _, err := readAll(t.Context(), conn, path); err == nil || !strings.Contains(err.Error(), "versions of groups") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// readAll reads an answer to its end.
func readAll(ctx context.Context, conn *member.Conn, path string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, conn.RESTConfig().Host+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := conn.HTTPClient().Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return io.Copy(io.Discard, resp.Body)
}

// TestTheTextOfAnErrorIsCut, wherever a member writes it.
func TestTheTextOfAnErrorIsCut(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	status := func(message, causes string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Invalid","code":422,"message":%q,"details":{"name":%q,"causes":[%s]}}`, message, message, causes)
	}
	s := newServer(t)
	_, conn := connect(t, s.URL, nil)
	for name, c := range map[string]struct {
		code     int
		location string
		body     string
	}{
		"a message":       {http.StatusUnprocessableEntity, "", status(long, `{"message":"`+long+`","field":"`+long+`"}`)},
		"many causes":     {http.StatusUnprocessableEntity, "", status("no", strings.Repeat(`{"message":"m"},`, 5000)+"{}")},
		"a large one":     {http.StatusUnprocessableEntity, "", status(strings.Repeat(long, 10), "")},
		"text":            {http.StatusInternalServerError, "", long},
		"a redirection":   {http.StatusFound, "https://127.0.0.1/" + long, ""},
		"another object":  {http.StatusOK, "", `{"apiVersion":"v1","kind":"` + long + `","metadata":{"name":"` + long + `"}}`},
		"no object":       {http.StatusOK, "", long},
		"not ready":       {http.StatusInternalServerError, "", long},
		"no identity":     {http.StatusForbidden, "", long},
		"a watch refused": {http.StatusUnprocessableEntity, "", status(long, "")},
	} {
		s.answer(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if c.location != "" {
				w.Header().Set("Location", c.location)
			}
			w.WriteHeader(c.code)
			_, _ = io.WriteString(w, c.body)
		})
		var err error
		message := ""
		switch name {
		case "not ready":
			_, message, err = conn.Probe(t.Context())
			if message == "" {
				t.Error("there is no message")
			}
		case "a watch refused":
			_, err = conn.Dynamic().Resource(configMaps).Watch(t.Context(), metav1.ListOptions{})
		default:
			_, err = conn.Dynamic().Resource(configMaps).Namespace("shop").Get(t.Context(), "a", metav1.GetOptions{})
		}
		if err == nil && message == "" {
			t.Errorf("%s: there is no error", name)
		}
		if n := max(len(message), len(fmt.Sprint(err))); n > 2*bounds.FailureTextBytes {
			t.Errorf("%s: the text has %d bytes", name, n)
		}
		if status, ok := err.(interface{ Status() metav1.Status }); ok && status.Status().Details != nil {
			details := status.Status().Details
			for _, cause := range details.Causes {
				if len(cause.Message)+len(cause.Field) > 2*bounds.FailureTextBytes {
					t.Errorf("%s: a cause has %d bytes", name, len(cause.Message))
				}
			}
			if len(details.Causes) > 1001 || len(details.Name) > bounds.NameBytes {
				t.Errorf("%s: %d causes, a name of %d bytes", name, len(details.Causes), len(details.Name))
			}
		}
	}
}

// TestHeadersHaveABound: warnings are headers.
func TestHeadersHaveABound(t *testing.T) {
	s := newServer(t)
	s.answer(func(w http.ResponseWriter, _ *http.Request) {
		for range 4 * bounds.HeaderBytes >> 10 {
			w.Header().Add("Warning", `299 - "`+strings.Repeat("x", 1<<10)+`"`)
		}
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop"}}`)
	})
	_, conn := connect(t, s.URL, nil)
	if _, err := conn.Dynamic().Resource(configMaps).Namespace("shop").Get(t.Context(), "a", metav1.GetOptions{}); err == nil || len(err.Error()) > bounds.MessageBytes {
		t.Errorf("a megabyte of headers is read: %v", err)
	}
}

// TestASlowAnswerHasAnEnd: neither headers nor bodies that trickle hold a request for longer than it may take.
func TestASlowAnswerHasAnEnd(t *testing.T) {
	s := newServer(t)
	trickle := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, " "); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	_, conn := connect(t, s.URL, func(c *member.Config) { c.RequestTimeout, c.FailureThreshold = 200*time.Millisecond, 1000 })
	for name, c := range map[string]struct {
		path   string
		answer func(http.ResponseWriter, *http.Request)
	}{
		"a body": {"/api/v1/namespaces/shop/configmaps/a", trickle}, "a list": {"/api/v1/configmaps", trickle}, "no headers": {"/apis", silent},
		"a watch that does not begin": {"/api/v1/configmaps?watch=1", silent}, "one that does not end": {"/api/v1/configmaps?watch=1&timeoutSeconds=1", trickle},
	} {
		s.answer(c.answer)
		if _, err := readAll(t.Context(), conn, c.path); err == nil || t.Context().Err() != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestObjectsOfNoWorkTakeLittle: a member streams managed objects of Works that do not exist. Once their Work appears, they are read in full.
func TestObjectsOfNoWorkTakeLittle(t *testing.T) {
	s := newServer(t)
	full := func(name string) string {
		return strings.Replace(configMap(name, 5, `"f:data":{}`), `{"apiVersion"`, `{"data":{"a":"`+strings.Repeat(name, 100<<10)+`"},"apiVersion"`, 1)
	}
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, full("a"))
			return
		}
		s.serveWatch(w, r)
	})
	exists := make(chan bool, 1)
	exists <- false
	_, conn := connect(t, s.URL, func(c *member.Config) {
		c.HasWork = func(types.NamespacedName) bool {
			now := <-exists
			exists <- now
			return now
		}
	})
	conn.Hold("test", configMaps)
	w := <-s.watches
	w.lines <- event("ADDED", full("a"))
	w.lines <- fmt.Sprintf(synced, 6)
	eventually(t, "the watch is complete", func() bool { return conn.HasSynced(configMaps) })
	work := types.NamespacedName{Namespace: "karmada-es-member1", Name: "w"}
	if _, found := conn.Lookup(configMaps, "shop", "a"); found {
		t.Error("an object of no Work is kept")
	}
	head, found := conn.Head(configMaps, "shop", "a")
	if !found || head.GetName() != "a" || len(conn.ControlPlane().OurFields(head)) != 0 || conn.ControlPlane().OurFields(head) == nil || head.Object["data"] != nil || conn.ControlPlane().WorkOf(head) != work {
		t.Errorf("its head is %v", head)
	}
	if _, complete := conn.Owned(work); complete {
		t.Error("the objects of the Work are complete")
	}
	<-exists
	exists <- true
	conn.Appeared(work)
	eventually(t, "the object is read", func() bool { _, found := conn.Lookup(configMaps, "shop", "a"); return found })
	if owned, complete := conn.Owned(work); len(owned) != 1 || !complete {
		t.Errorf("the Work owns %d objects, completely: %v", len(owned), complete)
	}
}

// TestManagedObjectsHaveABound in proportion to what the Works of the cluster order.
func TestManagedObjectsHaveABound(t *testing.T) {
	s := newServer(t)
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; r.Context().Err() == nil; i++ {
			if _, err := fmt.Fprintln(w, event("ADDED", configMap(fmt.Sprintf("c-%d", i), i+1, ""))); err != nil {
				return
			}
		}
	})
	_, conn := connect(t, s.URL, nil)
	conn.Hold("test", configMaps)
	eventually(t, "the member has too much", func() bool { return len(conn.Accounts().Excess()) > 0 })
	for _, text := range bounds.Texts(conn.Accounts().Excess()) {
		if !strings.Contains(text, "more than 1000 objects") {
			t.Error(text)
		}
	}
}
