package search

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/merge"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestAListIsNotOlderThanWhatTheClientHas: a list of a client that has objects of a member is refused while the member does not answer,
// by every replica, but not for ever.
func TestAListIsNotOlderThanWhatTheClientHas(t *testing.T) {
	f, _, b := two(t)
	_, _, list := get(t, f.replica(), "GET", proxying+configMaps, "")
	again := proxying + configMaps + "?resourceVersion=" + merge.VersionOf(list)
	for name, err := range map[string]error{
		"down": apierrors.NewServiceUnavailable("it is down"), "rights that are not read yet": apierrors.NewForbidden(schema.GroupResource{}, "", nil),
		"a kind that is not served yet": apierrors.NewNotFound(schema.GroupResource{}, ""),
	} {
		b.deny(err)
		server := f.replica()
		code, header, status := get(t, server, "GET", again, "")
		message, _ := status["message"].(string)
		if code != http.StatusServiceUnavailable || header.Get("Retry-After") != "2" || !strings.Contains(message, "without the objects of b (") || !strings.Contains(message, "a list without resourceVersion") {
			t.Errorf("%s: %d, Retry-After %q: %s", name, code, header.Get("Retry-After"), message)
		}
		// Who has nothing of the member misses nothing.
		for _, path := range []string{proxying + configMaps, proxying + configMaps + "?resourceVersion=0", proxying + configMaps + "?resourceVersion=" + merge.Version{"a": "101"}.String()} {
			code, header, list := get(t, server, "GET", path, "")
			expectOrigins(t, list, "a/one", "a/two")
			if code != http.StatusOK || !strings.Contains(header.Get("Warning"), "cluster b is missing") {
				t.Errorf("%s, a first list: %d, %v", name, code, header)
			}
		}
		b.deny(nil)
		_, _, list := get(t, server, "GET", again, "")
		expectOrigins(t, list, "a/one", "a/two", "b/three")
	}

	b.deny(apierrors.NewServiceUnavailable("it is down"))
	server, refused := f.replica(), time.Duration(0)
	code, header, list := get(t, server, "GET", again, "")
	for ; code == http.StatusServiceUnavailable && refused < time.Hour; code, header, list = get(t, server, "GET", again, "") {
		refused += 5 * time.Second
		f.clock.SetTime(f.clock.Now().Add(5 * time.Second))
	}
	if refused != 2*time.Minute {
		t.Errorf("lists are refused for %s, want 2 minutes", refused)
	}
	expectOrigins(t, list, "a/one", "a/two")
	if !strings.Contains(header.Get("Warning"), "cluster b is missing") || at(list)["b"] != "" {
		t.Errorf("the list without the member: %v, %v", header, at(list))
	}
	// A registry that does not select the member any more has its objects removed.
	f.change(map[string][]string{"a": nil})
	if code, _, list := get(t, f.replica(), "GET", again, ""); code != http.StatusOK {
		t.Errorf("without the member in the registry: %d, %v", code, list)
	}
}

// TestALateStart: while a server starts, a list waits for members that were ready before; later they are left out.
func TestALateStart(t *testing.T) {
	f, _, b := two(t)
	b.deny(apierrors.NewServiceUnavailable("it has no tunnel"))
	server := f.serve(f.starting().ServeHTTP)
	for path, name := range map[string]string{proxying + configMaps: "proxying", cached + configMaps: "search/cache", proxying + configMaps + "/none": "an object"} {
		code, header, status := get(t, server, "GET", path, "")
		if message, _ := status["message"].(string); code != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(message, "b: it has no tunnel") {
			t.Errorf("%s: %d, %v, %s", name, code, header, message)
		}
	}
	if _, _, found := get(t, server, "GET", proxying+configMaps+"/one", ""); origin(found) != "a/one" {
		t.Errorf("an object of a member that answers: %v", found)
	}
	b.deny(apierrors.NewForbidden(schema.GroupResource{}, "", nil))
	if code, _, _ := get(t, server, "GET", proxying+configMaps, ""); code != http.StatusOK {
		t.Errorf("a member that refuses: %d, want the others", code)
	}
	b.deny(apierrors.NewServiceUnavailable("it has no tunnel"))
	f.notReady = "b"
	if code, _, _ := get(t, server, "GET", proxying+configMaps, ""); code != http.StatusOK {
		t.Errorf("a member that was not ready before: %d, want the others", code)
	}
	f.notReady = ""
	f.clock.SetTime(f.clock.Now().Add(time.Minute))
	if code, header, _ := get(t, server, "GET", proxying+configMaps, ""); code != http.StatusOK || !strings.Contains(header.Get("Warning"), "cluster b is missing") {
		t.Errorf("after the start: %d, %v", code, header)
	}
}

// TestAListThatBreaksOff: a member that answers only until the list has begun ends one list, and not the next ones.
func TestAListThatBreaksOff(t *testing.T) {
	f, _, b := two(t)
	server := f.replica()
	_, _, list := get(t, server, "GET", proxying+configMaps, "")
	again := "?resourceVersion=" + merge.VersionOf(list)
	b.breakOff(true)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+proxying+configMaps, nil)
	if err != nil {
		t.Fatal(err)
	}
	// A connection of its own: a client sends the request again, by itself, if a used one is closed before the answer begins.
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	if err == nil {
		t.Error("a list without all objects of a member looks complete")
	}
	code, header, list := get(t, server, "GET", proxying+configMaps, "")
	expectOrigins(t, list, "a/one", "a/two")
	if code != http.StatusOK || !strings.Contains(header.Get("Warning"), "cluster b is missing: a list ended") {
		t.Errorf("the next list: %d, %v", code, header)
	}
	if code, _, status := get(t, server, "GET", proxying+configMaps+again, ""); code != http.StatusServiceUnavailable {
		t.Errorf("the list of a client that has objects of the member: %d, %v", code, status)
	}
	b.breakOff(false)
	f.clock.SetTime(f.clock.Now().Add(10 * time.Second))
	_, _, list = get(t, server, "GET", proxying+configMaps+again, "")
	expectOrigins(t, list, "a/one", "a/two", "b/three")
}

// TestAnInformerOverARestart: the server is another one, which does not reach a member at first. The informer has no deletion.
func TestAnInformerOverARestart(t *testing.T) {
	f, a, b := two(t)
	var serving atomic.Pointer[Server]
	var refused atomic.Int32
	// An informer lists after its watch is forbidden. After a watch that is cut it lists only if the watch was shorter than a second.
	var watchesForbidden atomic.Bool
	serving.Store(f.server())
	front := f.serve(func(w http.ResponseWriter, r *http.Request) {
		if watchesForbidden.Load() && r.URL.Query().Has("watch") {
			fail(w, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil))
			return
		}
		serving.Load().ServeHTTP(&counting{w, &refused}, r)
	})
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: front.URL + proxying})
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace("shop"))
	informer := factory.Core().V1().ConfigMaps()
	var mu sync.Mutex
	var deleted []string
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(object any) {
		mu.Lock()
		defer mu.Unlock()
		deleted = append(deleted, fmt.Sprint(object))
	}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	expect := func(want ...string) {
		t.Helper()
		fleettest.Eventually(t, fmt.Sprintf("the informer has %v", want), func() bool {
			var names []string
			for _, object := range informer.Informer().GetStore().List() {
				names = append(names, object.(*corev1.ConfigMap).Name)
			}
			slices.Sort(names)
			return slices.Equal(names, want)
		})
	}
	expect("one", "three", "two")

	a.deny(apierrors.NewServiceUnavailable("it is restarting"))
	b.deny(apierrors.NewServiceUnavailable("it is restarting"))
	serving.Store(f.server())
	watchesForbidden.Store(true)
	front.CloseClientConnections()
	a.deny(nil)
	before := refused.Load()
	fleettest.Eventually(t, "a list is refused", func() bool { return refused.Load() > before+1 })
	watchesForbidden.Store(false)
	a.change("ADDED", "shop", "four")
	b.change("ADDED", "shop", "five")
	b.deny(nil)
	expect("five", "four", "one", "three", "two")
	mu.Lock()
	defer mu.Unlock()
	if len(deleted) > 0 {
		t.Errorf("the informer has deletions: %v", deleted)
	}
}

// counting counts the answers that have clients send the request again.
type counting struct {
	http.ResponseWriter
	refused *atomic.Int32
}

func (c *counting) WriteHeader(code int) {
	if code == http.StatusServiceUnavailable && c.Header().Get("Retry-After") != "" {
		c.refused.Add(1)
	}
	c.ResponseWriter.WriteHeader(code)
}

func (c *counting) Flush() { c.ResponseWriter.(http.Flusher).Flush() }
