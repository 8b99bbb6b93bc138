package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/workstatus"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

// server is a member that serves ConfigMaps, all of which are watched and none of which exist but those that the test
// shows, and answers every other request as the test says. The watch shows a deletion that it answers with success, unless it lies.
// What a real member makes of an apply is for tests with real members.
type server struct {
	mu        sync.Mutex
	answer    func(w http.ResponseWriter, r *http.Request, body string)
	shown     []string            // what the watch of ConfigMaps begins with
	shownOf   map[string][]string // the same of other resources
	watchable chan struct{}       // the watch shows nothing before this is closed; nil: it shows everything
	requests  []string
	lies      bool                   // deletions are accepted, and do not happen
	deleted   map[string]chan string // by resource, what the watch is to show the end of
}

// deletions has the objects of a resource that were deleted.
func (s *server) deletions(resource string) chan string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted == nil {
		s.deleted = map[string]chan string{}
	}
	if s.deleted[resource] == nil {
		s.deleted[resource] = make(chan string, 8)
	}
	return s.deleted[resource]
}

// remove has the watch show the end of the object of a path, if it showed the object.
func (s *server) remove(at string) {
	resource := path.Base(path.Dir(at))
	deleted := s.deletions(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := s.shown
	if resource != "configmaps" {
		shown = s.shownOf[resource]
	}
	for _, obj := range shown {
		if strings.Contains(obj, fmt.Sprintf(`"name":%q`, path.Base(at))) && !s.lies {
			deleted <- obj
		}
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/api/v1":
		fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["list","delete"]},{"name":"namespaces","kind":"Namespace"}]}`)
		return
	case r.URL.Query().Get("watch") == "true":
		s.mu.Lock()
		shown, watchable := s.shown, s.watchable
		if resource := path.Base(r.URL.Path); resource != "configmaps" {
			shown = s.shownOf[resource]
		}
		s.mu.Unlock()
		if watchable != nil {
			select {
			case <-watchable:
			case <-r.Context().Done():
				return
			}
		}
		for _, obj := range shown {
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", obj)
		}
		fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		w.(http.Flusher).Flush()
		for deleted := s.deletions(path.Base(r.URL.Path)); ; w.(http.Flusher).Flush() {
			select {
			case obj := <-deleted:
				fmt.Fprintf(w, `{"type":"DELETED","object":%s}`+"\n", obj)
			case <-r.Context().Done():
				return
			}
		}
	case r.URL.Path == "/api":
		fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
		return
	case r.URL.Path == "/apis":
		fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		return
	case strings.HasPrefix(r.URL.Path, "/apis/"):
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	answer := s.answer
	s.mu.Unlock()
	recorded := httptest.NewRecorder()
	answer(recorded, r, string(body))
	if r.Method == http.MethodDelete && recorded.Code == http.StatusOK {
		s.remove(r.URL.Path)
	}
	w.WriteHeader(recorded.Code)
	_, _ = w.Write(recorded.Body.Bytes())
}

// taken returns the requests so far, and clears them.
func (s *server) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

func (s *server) set(answer func(w http.ResponseWriter, r *http.Request, body string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	send(w, code, metav1.Status{Reason: reason, Code: int32(code), Message: string(reason)})
}

func send(w http.ResponseWriter, code int, status metav1.Status) {
	status.TypeMeta, status.Status = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, metav1.StatusFailure
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status)
}

// accept answers an apply as an API server does that keeps everything, and a deletion with success. What it is requested
// is not there.
func accept(w http.ResponseWriter, r *http.Request, body string) {
	switch r.Method {
	case http.MethodGet:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	case http.MethodDelete:
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		return
	}
	obj := map[string]any{}
	_ = json.Unmarshal([]byte(body), &obj)
	metadata := obj["metadata"].(map[string]any)
	metadata["uid"], metadata["resourceVersion"] = "made", "20"
	metadata["managedFields"] = []any{map[string]any{"manager": ownership.FieldManager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fieldsOf(obj)}}
	_ = json.NewEncoder(w).Encode(obj)
}

func fieldsOf(fields map[string]any) map[string]any {
	owned := map[string]any{}
	for key, value := range fields {
		child, _ := value.(map[string]any)
		owned["f:"+key] = fieldsOf(child)
	}
	return owned
}

// bench is an Applier with one Work, a hub that records writes, and a member whose answers the test chooses.
type bench struct {
	*Applier
	t       *testing.T
	hub     client.Client
	server  *server
	reports *workstatus.Writer
	events  []string
	// successes are what is only kept in memory.
	successes []string
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{workv1alpha1.AddToScheme, clusterv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := &bench{t: t, server: &server{answer: accept}}
	b.hub = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&workv1alpha1.Work{}).WithObjects(objects...).Build()
	web := httptest.NewTLSServer(b.server)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	fleet, err := member.NewFleet(member.Config{AllowLoopback: true, RequestTimeout: 3 * time.Minute, Credentials: func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
		return member.Credential{Endpoint: web.URL}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	if b.reports, err = workstatus.New(workstatus.Config{Client: b.hub, Live: b.hub}); err != nil {
		t.Fatal(err)
	}
	// The writer does not run: condition flushes it. Flush leaves out what a worker has taken, which condition would not wait for.
	b.Applier, err = newApplier(b.hub, nil, Deps{Fleet: fleet, Report: b.reports, Events: events.RecorderFunc(func(e events.Event) {
		if e.InMemory {
			b.successes = append(b.successes, e.String())
			return
		}
		b.events = append(b.events, e.String())
	})})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if c, ok := o.(*clusterv1alpha1.Cluster); ok {
			if err := fleet.Upsert(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b
}

func cluster() *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member1", UID: "c"}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Push, InsecureSkipTLSVerification: true}}
}

var theWork = types.NamespacedName{Namespace: "karmada-es-member1", Name: "w"}

// look reconciles the Work, once more when its watch is complete if that is waited for.
func (b *bench) look() error {
	b.t.Helper()
	again, err := b.confirmed(b.reconcile(b.t.Context(), "member1", theWork))
	if err != nil || again != patienceWithWatch {
		return err
	}
	b.awaitWatch()
	_, err = b.confirmed(b.reconcile(b.t.Context(), "member1", theWork))
	return err
}

// confirmed reconciles the Work once more if what was deleted is not known to be gone, after the watch has shown it.
func (b *bench) confirmed(again time.Duration, err error) (time.Duration, error) {
	b.t.Helper()
	if err != nil || again != backoff.NotYet || b.server.lies {
		return again, err
	}
	conn, _ := b.fleet.Get("member1")
	unshown := func(context.Context) (bool, error) { return len(conn.Places(theWork)) == 0, nil }
	if err := wait.PollUntilContextTimeout(b.t.Context(), time.Millisecond, 3*time.Minute, true, unshown); err != nil {
		b.t.Fatal("the watch does not show the deletion")
	}
	return b.reconcile(b.t.Context(), "member1", theWork)
}

// expectPatience has the Work wait for its watch, and lets the time pass for which it does.
func (b *bench) expectPatience() {
	b.t.Helper()
	clock := clocktesting.NewFakeClock(b.clock.Now())
	b.setClock(clock)
	if again, err := b.reconcile(b.t.Context(), "member1", theWork); err != nil || again != patienceWithWatch {
		b.t.Fatalf("the Work is reconciled again after %v, error %v", again, err)
	}
	b.wantRequests()
	clock.Step(patienceWithWatch)
}

// setClock replaces the clock of everything that the Applier consists of.
func (b *bench) setClock(clock clock.WithTicker) { b.clock, b.objects.Clock = clock, clock }

// awaitWatch waits until the watch is complete.
func (b *bench) awaitWatch() {
	b.t.Helper()
	conn, ok := b.fleet.Get("member1")
	if !ok {
		b.t.Fatal("the member is not connected")
	}
	complete := make(chan struct{})
	conn.WhenSynced(configMaps, func() { close(complete) })
	select {
	case <-complete:
	case <-time.After(3 * time.Minute):
		b.t.Fatal("the watch is not complete")
	}
}

// queued is how many Works are enqueued, without those that the new connection enqueued.
func (b *bench) queued() int { return b.queues.Len() - 1 }

// expectQueued waits until so many Works are enqueued.
func (b *bench) expectQueued(n int) {
	b.t.Helper()
	err := wait.PollUntilContextTimeout(b.t.Context(), time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
		return b.queued() == n, nil
	})
	if err != nil {
		b.t.Fatalf("%d Works are enqueued, want %d", b.queued(), n)
	}
}

// condition is the Work's condition after everything was written; nil if there is none.
func (b *bench) condition(kind string) *metav1.Condition {
	b.t.Helper()
	if err := b.reports.Flush(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	w := &workv1alpha1.Work{}
	if err := b.hub.Get(b.t.Context(), theWork, w); err != nil {
		b.t.Fatal(err)
	}
	return meta.FindStatusCondition(w.Status.Conditions, kind)
}

// changeStatus changes the status of the Work as a user does, and returns the Work before and after.
func (b *bench) changeStatus(change func(*workv1alpha1.WorkStatus)) (before, after *workv1alpha1.Work) {
	b.t.Helper()
	before = &workv1alpha1.Work{}
	if err := b.hub.Get(b.t.Context(), theWork, before); err != nil {
		b.t.Fatal(err)
	}
	after = before.DeepCopy()
	change(&after.Status)
	if err := b.hub.Status().Update(b.t.Context(), after); err != nil {
		b.t.Fatal(err)
	}
	return before, after
}

func (b *bench) exists() bool {
	b.t.Helper()
	err := b.hub.Get(b.t.Context(), theWork, &workv1alpha1.Work{})
	if err != nil && !apierrors.IsNotFound(err) {
		b.t.Fatal(err)
	}
	return err == nil
}

func (b *bench) wantRequests(want ...string) {
	b.t.Helper()
	if got := b.server.taken(); !slices.Equal(want, got) {
		b.t.Errorf("the member received %q, want %q", got, want)
	}
}

func work(t *testing.T, manifests ...string) *workv1alpha1.Work {
	t.Helper()
	w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: "karmada-es-member1", Name: "w", UID: "u", Generation: 1, Finalizers: []string{workv1alpha1.ExecutionFinalizer},
	}}
	for _, text := range manifests {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return w
}
