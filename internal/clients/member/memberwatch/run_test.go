package memberwatch_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// request is what a watch or list asked for.
type request struct{ Watch, Streams, Version, Continue, Accept string }

// member serves ConfigMaps by a script: each request gets the next answer.
type member struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
	answers  []func(http.ResponseWriter, *http.Request)
}

func startMember(t *testing.T, answers ...func(http.ResponseWriter, *http.Request)) *member {
	t.Helper()
	m := &member{answers: answers}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		m.mu.Lock()
		n := len(m.requests)
		m.requests = append(m.requests, request{q.Get("watch"), q.Get("sendInitialEvents"), q.Get("resourceVersion"), q.Get("continue"), r.Header.Get("Accept")})
		m.mu.Unlock()
		if n >= len(m.answers) {
			waits(w, r)
			return
		}
		m.answers[n](w, r)
	}))
	t.Cleanup(m.Close)
	return m
}

// waits is a watch in which nothing happens.
func waits(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// says answers with lines of JSON, and ends.
func says(lines ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.Join(lines, "\n"))
	}
}

// refuses answers with an error.
func refuses(code int, reason metav1.StatusReason) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":%q,"code":%d}`, reason, code)
	}
}

func configMap(name string, version int) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":%q,"resourceVersion":"%d"}}`, name, version)
}

func event(kind, object string) string { return fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object) }

// complete is the end of a streamed list.
func complete(version int) string {
	return fmt.Sprintf(`{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`, version)
}

func (m *member) source(t *testing.T) memberwatch.Source {
	t.Helper()
	client, err := rest.RESTClientFor(&rest.Config{Host: m.URL, ContentConfig: rest.ContentConfig{
		GroupVersion: &corev1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}, QPS: -1, APIPath: "/api"})
	if err != nil {
		t.Fatal(err)
	}
	return memberwatch.NewClient(client, nil, bounds.NewAccounts()).Typed(corev1.SchemeGroupVersion.WithResource("configmaps"), metav1.NamespaceAll)
}

// follow runs a watch, and returns its store. An object named bad has the store panic.
func (m *member) follow(t *testing.T) *memberwatch.Store[string] {
	t.Helper()
	store := memberwatch.NewStore(func(c *corev1.ConfigMap) (string, bool, error) {
		if c.Name == "bad" {
			panic("an object that is not expected")
		}
		return c.ResourceVersion, true, nil
	}, func(types.NamespacedName) {}, func() {})
	group := memberwatch.NewGroup(t.Context())
	group.Follow("configmaps", m.source(t), store)
	t.Cleanup(func() { m.CloseClientConnections(); group.Close() })
	return store
}

func (m *member) expects(t *testing.T, store *memberwatch.Store[string], items map[string]string, requests ...request) {
	t.Helper()
	fleettest.Eventually(t, fmt.Sprintf("%d requests", len(requests)), func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.requests) >= len(requests)
	})
	got := map[string]string{}
	store.Visit(func(key types.NamespacedName, version string) { got[key.Name] = version })
	if diff := cmp.Diff(items, got); diff != "" {
		t.Errorf("the store (-want +got):\n%s", diff)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.requests {
		m.requests[i].Accept = ""
	}
	if diff := cmp.Diff(requests, m.requests); diff != "" {
		t.Errorf("the requests (-want +got):\n%s", diff)
	}
}

var streamed = request{Watch: "true", Streams: "true"}

// TestAWatchGoesOnWhereItEnded: the list is streamed, and the next watch begins at the last version that the first one showed.
func TestAWatchGoesOnWhereItEnded(t *testing.T) {
	m := startMember(t,
		says(event("ADDED", configMap("a", 1)), event("ADDED", configMap("b", 2)), complete(3), event("MODIFIED", configMap("a", 4)), event("DELETED", configMap("b", 5))),
		says(event("ADDED", configMap("c", 6)), `{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"9"}}}`))
	m.expects(t, m.follow(t), map[string]string{"a": "4", "c": "6"}, streamed, request{Watch: "true", Version: "5"}, request{Watch: "true", Version: "9"})
}

// TestAPanicIsThatOfOneObject: an object of a member that a store panics about ends neither the process nor the watch of the others. In a list, it
// fails as a list that is not complete, and is read again.
func TestAPanicIsThatOfOneObject(t *testing.T) {
	m := startMember(t,
		says(event("ADDED", configMap("a", 1)), complete(3), event("ADDED", configMap("bad", 4)), event("ADDED", configMap("b", 5))))
	m.expects(t, m.follow(t), map[string]string{"a": "1", "b": "5"}, streamed, request{Watch: "true", Version: "5"})
	m = startMember(t,
		says(event("ADDED", configMap("bad", 1)), complete(3)),
		says(event("ADDED", configMap("a", 4)), complete(5)))
	m.expects(t, m.follow(t), map[string]string{"a": "4"}, streamed, streamed, request{Watch: "true", Version: "5"})
}

// TestAMemberThatStreamsNoLists gets a request for each page.
func TestAMemberThatStreamsNoLists(t *testing.T) {
	page := func(next, name string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"7","continue":%q},"items":[%s]}`, next, configMap(name, 3))
	}
	m := startMember(t, refuses(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid), says(page("more", "a")), says(page("", "b")))
	m.expects(t, m.follow(t), map[string]string{"a": "3", "b": "3"}, streamed, request{}, request{Continue: "more"}, request{Watch: "true", Version: "7"})
}

// TestAVersionThatIsGone leads to a list, whether the answer or an event of the watch says so.
func TestAVersionThatIsGone(t *testing.T) {
	gone := `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`
	m := startMember(t, says(event("ADDED", configMap("a", 1)), complete(3), gone), says(event("ADDED", configMap("b", 5)), complete(6), event("ADDED", configMap("x", 7))),
		refuses(http.StatusGone, metav1.StatusReasonExpired), says(event("ADDED", configMap("c", 8)), complete(9), event("ADDED", configMap("d", 10))))
	m.expects(t, m.follow(t), map[string]string{"c": "8", "d": "10"}, streamed, streamed, request{Watch: "true", Version: "7"}, streamed, request{Watch: "true", Version: "10"})
}

// TestTooManyRequests: a member that is busy is asked for the same version again, and a list that was cut is streamed again.
func TestTooManyRequests(t *testing.T) {
	m := startMember(t, says(event("ADDED", configMap("a", 1))), says(event("ADDED", configMap("a", 1)), complete(3), event("ADDED", configMap("b", 4))),
		refuses(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests), says(event("ADDED", configMap("c", 5))))
	again := request{Watch: "true", Version: "4"}
	m.expects(t, m.follow(t), map[string]string{"a": "1", "b": "4", "c": "5"}, streamed, streamed, again, again, request{Watch: "true", Version: "5"})
}

// TestProtobuf: it is distinguished from JSON by the first byte.
func TestProtobuf(t *testing.T) {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	encode := func(kind string, c *corev1.ConfigMap) string {
		raw, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), c)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := (&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(frame)))) + string(frame)
	}
	a := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", ResourceVersion: "1"}, Data: map[string]string{"k": strings.Repeat("v", 100_000)}}
	end := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	text := encode("ADDED", a) + encode("BOOKMARK", end)
	m := startMember(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
			t.Errorf("requested is %s", r.Header.Get("Accept"))
		}
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
		_, _ = io.WriteString(w, text)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	store := m.follow(t)
	fleettest.Eventually(t, "the list is complete", store.Synced)
	m.expects(t, store, map[string]string{"a": "1"}, streamed)
}

// TestLargeEvents: what follows a large event is not lost with its buffer.
func TestLargeEvents(t *testing.T) {
	var lines []string
	want := map[string]string{}
	for i := range 50 {
		name := fmt.Sprint("n", i)
		large := strings.Replace(configMap(name, i+1), "{", `{"further":"`+strings.Repeat("n", i*200)+`",`, 1)
		lines, want[name] = append(lines, event("ADDED", large)), fmt.Sprint(i+1)
	}
	m := startMember(t, says(append(append([]string{event("ADDED", configMap("n0", 1)), complete(1)}, lines[1:]...), "")...))
	m.expects(t, m.follow(t), want, streamed, request{Watch: "true", Version: "50"})
}

// TestAnEventHasABound: a member that never ends an event, or sends one with many values, does not fill the memory. The bytes of JSON are
// counted by the transport, see package member.
func TestAnEventHasABound(t *testing.T) {
	protobuf := func(answer ...byte) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
			_, _ = w.Write(answer)
		}
	}
	values := strings.Repeat("{},", int(bounds.Event.Piece.Values))
	again := []request{streamed, streamed, {Watch: "true", Version: "7"}}
	good := says(event("ADDED", configMap("a", 3)), complete(7))
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"a length of 2 GB":       protobuf(0x7f, 0xff, 0xff, 0xff, 0),
		"values in JSON":         says(event("ADDED", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":[`+values+`{}]}`)),
		"a name":                 says(event("ADDED", configMap(strings.Repeat("x", bounds.NameBytes+1), 1))),
		"an error with its text": says(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"` + strings.Repeat("x", 1<<20) + `"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			expected := again
			answers := []func(http.ResponseWriter, *http.Request){answer, good}
			if strings.HasPrefix(name, "an error") { // is no evidence of too much: pages are read
				answers = []func(http.ResponseWriter, *http.Request){answer, refuses(http.StatusInternalServerError, metav1.StatusReasonInternalError), good}
				expected = []request{streamed, {}, streamed, {Watch: "true", Version: "7"}}
			}
			m := startMember(t, answers...)
			m.expects(t, m.follow(t), map[string]string{"a": "3"}, expected...)
		})
	}
}

// pageOf is a page of a list.
func pageOf(next string, items ...string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"7","continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
}

// TestPagesHaveAnEnd: a member whose lists have no end is listed again after a pause.
func TestPagesHaveAnEnd(t *testing.T) {
	unstreamed := refuses(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	good := says(event("ADDED", configMap("a", 3)), complete(7))
	m := startMember(t, unstreamed, says(pageOf("more", configMap("x", 1))), says(pageOf("more", configMap("x", 1))), good)
	m.expects(t, m.follow(t), map[string]string{"a": "3"}, streamed, request{}, request{Continue: "more"}, streamed, request{Watch: "true", Version: "7"})
	m = startMember(t, unstreamed, says(pageOf(strings.Repeat("x", bounds.TokenBytes+1))), good)
	m.expects(t, m.follow(t), map[string]string{"a": "3"}, streamed, request{}, streamed, request{Watch: "true", Version: "7"})
	answers, requests := []func(http.ResponseWriter, *http.Request){unstreamed}, []request{streamed, {}}
	for i := range bounds.EmptyPages + 1 {
		answers, requests = append(answers, says(pageOf(fmt.Sprint(i)))), append(requests, request{Continue: fmt.Sprint(i)})
	}
	m = startMember(t, append(answers, good)...)
	m.expects(t, m.follow(t), map[string]string{"a": "3"}, append(requests[:len(requests)-1], streamed, request{Watch: "true", Version: "7"})...)
}

// TestAPageThatIsTooLargeIsReadInParts down to one object.
func TestAPageThatIsTooLargeIsReadInParts(t *testing.T) {
	large := pageOf("", `{"metadata":{"name":"x"},"data":[`+strings.Repeat("{},", int(bounds.Page.Piece.Values))+"{}]}")
	m := startMember(t, refuses(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid), says(large), says(large), says(pageOf("more", configMap("a", 3))),
		says(pageOf("", configMap("b", 3))))
	m.expects(t, m.follow(t), map[string]string{"a": "3", "b": "3"}, streamed, request{}, request{}, request{}, request{Continue: "more"}, request{Watch: "true", Version: "7"})
}

// TestAMemberThatShowsTooMuch: what is kept of one kind has a bound in objects and in bytes, by all that keep some of it, in lists and in
// watches. The watch ends and begins again, and what was shown stays.
func TestAMemberThatShowsTooMuch(t *testing.T) {
	row := bounds.Row{Sends: "configuration", Kept: bounds.Amount{Objects: 3, Bytes: 4 << 10}}
	large := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"resourceVersion":"5"},"data":{"a":%q}}`, name, strings.Repeat("x", 4<<10))
	}
	few := []string{event("ADDED", configMap("a", 1)), event("ADDED", configMap("b", 1))}
	many := append(slices.Clone(few), event("ADDED", configMap("c", 1)), event("ADDED", configMap("d", 1)))
	unstreamed := refuses(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	for name, answers := range map[string][]func(http.ResponseWriter, *http.Request){
		"objects of a list":        {says(append(many, complete(3))...)},
		"objects of pages":         {unstreamed, says(pageOf("more", configMap("a", 1), configMap("b", 1))), says(pageOf("", configMap("c", 1), configMap("d", 1)))},
		"objects of a watch":       {says(append(few, complete(3), event("MODIFIED", configMap("c", 4)), event("DELETED", configMap("x", 4)), event("MODIFIED", configMap("d", 4)))...)},
		"bytes of a list":          {says(append(few, event("ADDED", large("c")), complete(3))...)},
		"bytes of an object":       {says(append(few, complete(3), event("MODIFIED", large("a")))...)},
		"bytes of one in its list": {says(event("ADDED", large("a")), complete(3))},
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			m := startMember(t, append(answers, func(w http.ResponseWriter, r *http.Request) {
				<-release
				says(append(few, complete(9))...)(w, r)
			})...)
			source := m.source(t)
			changes := make(chan struct{}, 100)
			source.Accounts.OnChange(func() { changes <- struct{}{} })
			store := memberwatch.NewStore(func(c *corev1.ConfigMap) (map[string]string, bool, error) { return c.Data, true, nil }, func(types.NamespacedName) {}, func() {})
			group := memberwatch.NewGroup(t.Context())
			t.Cleanup(func() { m.CloseClientConnections(); group.Close() })
			stop := group.Follow("configmaps", source.Within(row), store)
			<-changes
			if got := source.Accounts.Excess()["configmaps"]; !strings.Contains(got, "too much of configuration") {
				t.Errorf("the member has %q", got)
			}
			close(release)
			<-changes
			if got := source.Accounts.Excess(); len(got) > 0 {
				t.Errorf("after a list that fits: %q", got)
			}
			if n := len(store.Keys(nil)); n != 2 || store.Held().Objects != 2 {
				t.Errorf("%d objects are kept, %+v is counted", n, store.Held())
			}
			account := source.Within(row).Account
			if account.Check(bounds.Amount{Objects: 1}, bounds.Amount{}) != nil || account.Check(bounds.Amount{Objects: 2}, bounds.Amount{}) == nil {
				t.Error("the account has not the two objects of the store")
			}
			stop()
			fleettest.Eventually(t, "what an ended watch kept is taken off", func() bool { return account.Check(row.Kept, bounds.Amount{}) == nil })
		})
	}
}

// waiting is a stream.
type waiting func() (watch.Event, error)

func (w waiting) Next() (watch.Event, error) { return w() }
func (w waiting) Close()                     {}

// TestAWatchHasOneGoroutine counts them: it is most of what an idle member costs. The transport has another one for each stream.
func TestAWatchHasOneGoroutine(t *testing.T) {
	const watches = 50
	block := make(chan struct{})
	source := memberwatch.Source{Watch: func(ctx context.Context, _ metav1.ListOptions) (memberwatch.Stream, error) {
		return waiting(func() (watch.Event, error) {
			block <- struct{}{}
			<-ctx.Done()
			return watch.Event{}, io.EOF
		}), nil
	}}
	before := goruntime.NumGoroutine()
	group := memberwatch.NewGroup(t.Context())
	for range watches {
		group.Follow("blocked", source, memberwatch.NewStore(func(*corev1.ConfigMap) (struct{}, bool, error) { return struct{}{}, true, nil }, func(types.NamespacedName) {}, func() {}))
	}
	for range watches {
		<-block
	}
	if n := goruntime.NumGoroutine() - before; n > watches {
		t.Errorf("%d watches have %d goroutines", watches, n)
	}
	group.Close()
}
