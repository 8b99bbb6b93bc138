package collect

import (
	"context"
	"runtime"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

var web = types.NamespacedName{Namespace: "shop", Name: "web"}

func registration(t *testing.T, cluster string, selectorless bool) *workv1alpha1.Work {
	t.Helper()
	mcs := &networkingv1alpha1.MultiClusterService{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}}
	work, err := mcswork.Registration(mcs, cluster, nil, selectorless)
	if err != nil {
		t.Fatal(err)
	}
	return work
}

// TestMembersThatComeAndGoLeaveNothing: the watches of a member end with its connection, all goroutines end with Start.
func TestMembersThatComeAndGoLeaveNothing(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	ctx, stop := context.WithCancel(t.Context())
	server, fleet, works := fleettest.StartEmptyMember(), fleettest.LocalFleet(t, member.Config{}), fleettest.NewWorks()
	memory := fleettest.InMemory(t, []fleettest.Index{mcswork.AddIndexes})
	c := newCollector(works, Deps{Client: memory.Client, Fleet: fleet, Clock: clock.RealClock{}, Workers: 2})
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	fleettest.Eventually(t, "the collector starts", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.started
	})
	works.Informer.Add(registration(t, "a", false))
	connect := func() {
		t.Helper()
		server.Connect(t, fleet, "a")
	}
	open := func(n int64) {
		t.Helper()
		server.ExpectWatches(t, n)
	}
	connect()
	open(1)
	works.Informer.Update(registration(t, "a", false), registration(t, "a", true)) // another scope
	open(1)
	fleet.Remove("a")
	open(0)
	connect()
	open(1)
	works.Informer.Delete(registration(t, "a", true))
	open(0)
	works.Informer.Add(registration(t, "a", true))
	open(1)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	open(0)
	fleet.Close()
	server.Stop()
	fleettest.Eventually(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// TestRecords: a slice is recorded if its Service is registered, and its record goes with it; nothing is written while it is not
// certain whether a slice exists.
func TestRecords(t *testing.T) {
	memory := fleettest.InMemory(t, []fleettest.Index{mcswork.AddIndexes}, registration(t, "a", false))
	c := newCollector(fleettest.NewWorks(), Deps{Client: memory.Client, Fleet: fleettest.LocalFleet(t, member.Config{}), Clock: clock.RealClock{}, Workers: 1})
	watch := &memberwatch.Watch[endpointslices.Slice]{Store: endpointslices.NewSlices(endpointslices.Collected, func(types.NamespacedName) {}, func() {})}
	c.providers["a"] = &provider{watches: map[endpointslices.Scope]*memberwatch.Watch[endpointslices.Slice]{{}: watch}}
	key := types.NamespacedName{Namespace: "shop", Name: "web-1"}
	slice := func(name, service string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}, {Addresses: []string{"10.0.0.2"}}},
		}
	}
	reconcile := func(key types.NamespacedName, writes int, recorded bool) {
		t.Helper()
		before := memory.Writes
		if again, err := c.reconcile(t.Context(), "a", key); err != nil || again != 0 {
			t.Fatalf("reconciling: again after %s, %v", again, err)
		}
		if got := memory.Writes - before; got != writes {
			t.Errorf("%d writes, want %d", got, writes)
		}
		record, err := hubclient.GetWork(t.Context(), memory.Client, mcswork.CollectedKey("a", key))
		if err != nil || (record != nil) != recorded {
			t.Errorf("there is a record: %v (%v), want %v", record != nil, err, recorded)
		}
		if record != nil && (mcswork.OwnerOf(record) != web || !*record.Spec.SuspendDispatching) {
			t.Errorf("the record is %+v", record)
		}
	}
	reconcile(key, 0, false) // nothing was listed yet
	if err := watch.Replace([]any{slice("web-1", "web"), slice("other-1", "other")}, "1"); err != nil {
		t.Fatal(err)
	}
	reconcile(key, 1, true)
	reconcile(key, 0, true)
	reconcile(types.NamespacedName{Namespace: "shop", Name: "other-1"}, 0, false) // its Service is not registered
	if got := c.metrics.Endpoints.Total(); got != 2 {
		t.Errorf("%v endpoints are collected, want 2", got)
	}
	if err := watch.Delete(slice("web-1", "web")); err != nil {
		t.Fatal(err)
	}
	reconcile(key, 1, false)
	if got := c.metrics.Endpoints.Total(); got != 0 {
		t.Errorf("%v endpoints are collected, want none", got)
	}
}

// TestRecordsWaitForTheirRegistration: while others changed the labels of a registration, its records stay.
func TestRecordsWaitForTheirRegistration(t *testing.T) {
	changed := registration(t, "a", false)
	changed.Labels = nil
	memory := fleettest.InMemory(t, []fleettest.Index{mcswork.AddIndexes}, changed)
	c := newCollector(fleettest.NewWorks(), Deps{Client: memory.Client, Fleet: fleettest.LocalFleet(t, member.Config{}), Clock: clock.RealClock{}, Workers: 1})
	again, err := c.record(t.Context(), "a", types.NamespacedName{Namespace: "shop", Name: "web-1"}, endpointslices.Slice{Raw: []byte("{}"), Service: web})
	if err != nil || again == 0 || memory.Writes > 0 {
		t.Errorf("again after %s (%v), %d writes; want a retry without a write", again, err, memory.Writes)
	}
}
