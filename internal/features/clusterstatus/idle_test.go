package clusterstatus

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// discovering is an API server with one kind. The function is called for every request, and returns the ETag of what is served.
func discovering(see func(*http.Request) string) *httptest.Server {
	return httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		etag := see(r)
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		switch r.URL.Path {
		case "/readyz":
			_, _ = w.Write([]byte("ok"))
		case "/version":
			_, _ = w.Write([]byte(`{"gitVersion":"v1.37.0"}`))
		case "/api":
			_, _ = w.Write([]byte(`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{},"versions":[{"version":"v1","resources":[` +
				`{"resource":"pods","responseKind":{"group":"","version":"v1","kind":"Pod"},"scope":"Namespaced","verbs":["get"]}]}]}]}`))
		case "/apis":
			_, _ = w.Write([]byte(`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
}

// served is a Cluster with its connection.
func served(t *testing.T, url string) (*member.Fleet, *clusterv1alpha1.Cluster) {
	t.Helper()
	fleet, err := member.NewFleet(member.Config{AllowLoopback: true, Credentials: func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
		return member.Credential{Endpoint: url}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	cluster := &clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "1"}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Push, InsecureSkipTLSVerification: true},
	}
	if err := fleet.Upsert(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	return fleet, cluster
}

// TestAStatusIsWrittenOnceAndAgainWhenOthersChangeIt: the status is compared only when something that it follows from has changed.
func TestAStatusIsWrittenOnceAndAgainWhenOthersChangeIt(t *testing.T) {
	web := discovering(func(*http.Request) string { return `"1"` })
	defer web.Close()
	fleet, cluster := served(t, web.URL)
	scheme, writes := runtime.NewScheme(), 0
	if err := clusterv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(cluster).WithObjects(cluster).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(name).Patch(ctx, o, p, options...)
		},
	}).Build()
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	o := newObserver(hub, Deps{Fleet: fleet, Clock: clock, Periods: everyTenSeconds, Events: events.RecorderFunc(func(events.Event) {})})
	look := func(want int, why string) *clusterv1alpha1.Cluster {
		t.Helper()
		clock.Step(10 * time.Second)
		if _, err := o.observe(t.Context(), cluster.Name, types.NamespacedName{}); err != nil {
			t.Fatal(err)
		}
		now := &clusterv1alpha1.Cluster{}
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(cluster), now); err != nil {
			t.Fatal(err)
		}
		if writes != want || !meta.IsStatusConditionTrue(now.Status.Conditions, clusterv1alpha1.ClusterConditionReady) {
			t.Errorf("%s: %d writes, want %d; the conditions are %v", why, writes, want, now.Status.Conditions)
		}
		return now
	}
	t.Cleanup(func() { o.forget(cluster.Name) })
	look(1, "the first time")
	look(1, "nothing changed")
	now := look(1, "nothing changed again")
	meta.RemoveStatusCondition(&now.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	if err := hub.Status().Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	look(2, "another client changed the status")
}

// TestAnIdleMemberGetsTwoRequestsInAPeriod counts requests: what a member serves is read again when it changed, or after a while.
func TestAnIdleMemberGetsTwoRequestsInAPeriod(t *testing.T) {
	var mu sync.Mutex
	requests, etag := map[string]int{}, `"1"`
	web := discovering(func(r *http.Request) string {
		mu.Lock()
		defer mu.Unlock()
		requests[r.URL.Path]++
		return etag
	})
	defer web.Close()
	fleet, cluster := served(t, web.URL)
	conn, _ := fleet.Get(cluster.Name)
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	o := &clusterObserver{Deps: Deps{Fleet: fleet, Clock: clock, Periods: everyTenSeconds}}
	s := &clusterState{conn: conn}
	period := func(want map[string]int) {
		t.Helper()
		mu.Lock()
		clear(requests)
		mu.Unlock()
		clock.Step(10 * time.Second)
		o.refresh(t.Context(), s)
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(want, maps.Clone(requests)); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
	whole := map[string]int{"/readyz": 1, "/apis": 2, "/api": 1, "/version": 1}
	idle := map[string]int{"/readyz": 1, "/apis": 1}
	period(whole)
	if !s.apis.serves("v1", "Pod") || s.apis.condition.Status != metav1.ConditionTrue {
		t.Errorf("the kinds are %v", s.apis)
	}
	period(idle)
	period(idle)
	mu.Lock()
	etag = `"2"`
	mu.Unlock()
	period(whole)
	period(idle)
	s.apisStale.set()
	period(whole)
	clock.Step(apisAge)
	period(whole)
	s.apis.condition = clusterv1alpha1.APIEnablementsPartial("one group did not answer")
	period(whole)
	period(idle)
}

// TestADefinitionOfOursIsSeenAtOnce: that of others with the next probe, by the ETag.
func TestADefinitionOfOursIsSeenAtOnce(t *testing.T) {
	web := discovering(func(*http.Request) string { return `"1"` })
	defer web.Close()
	fleet, cluster := served(t, web.URL)
	conn, _ := fleet.Get(cluster.Name)
	o := newObserver(nil, Deps{Fleet: fleet, Clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), Periods: everyTenSeconds})
	s := &clusterState{conn: conn}
	o.states[cluster.Name] = s
	for resource, want := range map[schema.GroupVersionResource]bool{{Version: "v1", Resource: "namespaces"}: false, definitions: true} {
		o.objectChanged(objectcache.Change{Cluster: cluster.Name, Resource: resource, New: true})
		if got := s.apisStale.take(); got != want {
			t.Errorf("after a change of %s: the kinds are read is %v", resource.Resource, got)
		}
	}
	o.objectChanged(objectcache.Change{Cluster: "unknown", Resource: definitions})
}
