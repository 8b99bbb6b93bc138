package restore

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

var errLost = errors.New("no answer")

// losable is a control plane that is lost at some point: in the middle of a count that is raised, as happens to an agent.
type losable struct {
	client.Client
	writes, reads bool // whether they are lost
}

func (l *losable) Create(ctx context.Context, obj client.Object, options ...client.CreateOption) error {
	if l.writes {
		return errLost
	}
	return l.Client.Create(ctx, obj, options...)
}

func (l *losable) Update(ctx context.Context, obj client.Object, options ...client.UpdateOption) error {
	if l.writes {
		return errLost
	}
	return l.Client.Update(ctx, obj, options...)
}

// live reads past the cache, which an agent has also without the control plane.
type live struct{ *losable }

func (l live) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if l.reads {
		return errLost
	}
	return l.Client.Get(ctx, key, obj, options...)
}

// withLease has a member keep one Lease: that with the count.
func withLease(others http.Handler) http.Handler {
	var stored []byte
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/leases") {
			others.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if r.Method != http.MethodGet {
			sent, _ := io.ReadAll(r.Body)
			lease, _, err := scheme.Codecs.UniversalDeserializer().Decode(sent, nil, nil) // JSON or protobuf
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			lease.GetObjectKind().SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
			lease.(client.Object).SetNamespace(clusterv1alpha1.ClusterNamespace)
			stored, _ = json.Marshal(lease)
		}
		if stored == nil {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404}`))
			return
		}
		_, _ = w.Write(stored)
	})
}

// TestTheControlPlaneIsLostWhileACountIsRaised: an agent goes on in its member.
func TestTheControlPlaneIsLostWhileACountIsRaised(t *testing.T) {
	server := fleettest.StartEmptyMember()
	defer server.Stop()
	server.Config.Handler = withLease(server.Config.Handler)
	fleet := fleettest.LocalFleet(t, member.Config{ControlPlane: ownership.ControlPlane{ID: "home"}})
	defer fleet.Close()
	cluster := server.Cluster("eu")
	server.Connect(t, fleet, "eu")
	conn, ok := fleet.Get("eu")
	if !ok {
		t.Fatal("the member is not connected")
	}
	hub := &losable{Client: fleettest.InMemory(t, nil, cluster).Client}
	if err := coordinationv1.AddToScheme(hub.Scheme()); err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Now())
	guard := New(Deps{Client: hub, Live: live{hub}, Fleet: fleet, Clock: clock, Metrics: prometheus.NewRegistry()})
	raise := func() error {
		guard.Writes(conn)
		_, err := guard.raise(t.Context(), "eu", types.NamespacedName{Name: "eu"})
		return err
	}
	held := func(when string) {
		t.Helper()
		if hold, err := guard.Held(t.Context(), conn); err != nil || hold != (member.Hold{}) {
			t.Errorf("%s: held is %+v, %v", when, hold, err)
		}
	}

	held("at first")
	if err := raise(); err != nil { // the member has a count
		t.Fatal(err)
	}
	clock.Step(period)
	hub.writes = true
	if err := raise(); !errors.Is(err, errLost) {
		t.Fatalf("raising the count: %v", err)
	}
	hub.reads = true
	clock.Step(maxAge)
	held("without the control plane")
}
