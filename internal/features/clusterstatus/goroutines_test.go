package clusterstatus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// TestClustersThatCameAndWentLeaveNothing counts goroutines: the watches of a member end with its connection.
func TestClustersThatCameAndWentLeaveNothing(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1alpha1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	const patience = 5 * time.Minute
	hub := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&clusterv1alpha1.Cluster{}).Build()
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/v1/pods" && r.URL.Query().Get("watch") == "":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [{
				"metadata": {"namespace": "shop", "name": "web-5d-x", "uid": "1", "labels": {"pod-template-hash": "5d"},
					"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": "2", "controller": true}]},
				"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}]}`)
		case r.URL.Path == "/readyz":
			fmt.Fprint(w, "ok")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer web.Close()
	fleet, err := member.NewFleet(member.Config{AllowLoopback: true, RequestTimeout: patience, Credentials: func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
		return member.Credential{Endpoint: web.URL}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer fleet.Close()
	o := newObserver(hub, Deps{
		Fleet: fleet, Events: events.RecorderFunc(func(events.Event) {}), Clock: clock.RealClock{}, Unplaced: &Unplaced{},
		Periods: func() Periods { // soon again after a handshake that was too slow
			return Periods{Probe: time.Second, Failure: time.Minute, Success: time.Minute}
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = o.Start(ctx) }()
	defer func() { cancel(); <-done }()

	eventually := func(what string, is func() bool) {
		t.Helper()
		if wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, patience, true, func(context.Context) (bool, error) { return is(), nil }) != nil {
			t.Fatalf("never: %s", what)
		}
	}
	states := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.states)
	}
	unplaced := func() (n int) {
		o.Unplaced.Visit(func(_ string, deployment types.NamespacedName, _ types.UID) {
			if deployment == (types.NamespacedName{Namespace: "shop", Name: "web"}) {
				n++
			}
		})
		return n
	}
	before := goruntime.NumGoroutine()
	const members = 20 // far more than the goroutines that may remain
	for i := range members {
		name := fmt.Sprintf("member-%d", i)
		cluster := &clusterv1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec:       clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Push, InsecureSkipTLSVerification: true},
		}
		if err := hub.Create(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		if err := fleet.Upsert(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
	}
	eventually("every member is watched", func() bool { return states() == members })
	eventually("the pods that no node takes are known", func() bool { return unplaced() == members })
	for i := range members {
		fleet.Remove(fmt.Sprintf("member-%d", i))
	}
	eventually("no member is watched", func() bool { return states() == 0 && unplaced() == 0 })
	eventually("the goroutines are gone", func() bool {
		web.CloseClientConnections() // those of the server
		return goruntime.NumGoroutine() <= before+8
	})
}
