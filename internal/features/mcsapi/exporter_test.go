package mcsapi

import (
	"context"
	"testing"
	"time"

	"github.com/flagship-k8s/flagship/internal/clients/member/memberqueue"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// followed is an exporter on a hub in memory, with one member whose objects a test puts into its stores as watches would.
type followed struct {
	*exporter
	hub   *hub
	space *exportingSpace
	// looked has the slices that were looked at.
	looked chan types.NamespacedName
}

// stored is what a watch would fill.
func stored[T any](v endpointslices.View[T], tell endpointslices.Handlers) *endpointslices.Watch[T] {
	return &endpointslices.Watch[T]{View: v, Handlers: tell, Items: map[types.NamespacedName]T{}}
}

func followedMember(t *testing.T) *followed {
	t.Helper()
	fleet, err := member.NewFleet(member.Config{Credentials: func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
		return member.Credential{}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	f := &followed{hub: newHub(t, registeredCluster("a")), looked: make(chan types.NamespacedName, 100)}
	f.exporter = &exporter{client: f.hub.Client, fleet: fleet, clock: clock.RealClock{}, ctx: t.Context(), members: map[string]*exporting{}}
	f.exports = memberqueue.New("exports", fleet, clock.RealClock{}, 1, func(context.Context, string, types.NamespacedName) (time.Duration, error) { return 0, nil })
	f.endpoints = memberqueue.New("endpoints", fleet, clock.RealClock{}, 1, func(ctx context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
		again, err := f.reconcileEndpoints(ctx, cluster, key)
		f.looked <- key
		return again, err
	})
	go func() { _ = f.endpoints.Start(t.Context()) }()
	complete := func() { f.complete("a") }
	f.space = &exportingSpace{
		services: stored(endpointslices.ViewOf(keepService), endpointslices.Handlers{Changed: func(types.NamespacedName) {}, Listed: complete}),
		slices: stored(endpointslices.SliceView(exportwork.Exported), endpointslices.Handlers{
			Changed: func(slice types.NamespacedName) { f.endpoints.Add("a", slice) }, Listed: complete,
		}),
	}
	exports := stored(endpointslices.ViewOf(func(obj any) (*multiclusterv1beta1.ServiceExport, bool, error) {
		return obj.(*multiclusterv1beta1.ServiceExport), true, nil
	}), endpointslices.Handlers{Changed: func(types.NamespacedName) {}, Listed: complete})
	f.members["a"] = &exporting{exports: exports, spaces: map[string]*exportingSpace{"shop": f.space}}
	return f
}

// TestSlicesAreRecordedInAnyOrder: after a start a slice that nobody has recorded yet may be seen before the Service that it
// belongs to.
func TestSlicesAreRecordedInAnyOrder(t *testing.T) {
	f := followedMember(t)
	if err := f.members["a"].exports.Replace([]any{webExport()}, "1"); err != nil {
		t.Fatal(err)
	}
	if err := f.space.slices.Replace([]any{full()}, "1"); err != nil {
		t.Fatal(err)
	}
	<-f.looked
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	if err := f.space.services.Replace([]any{service}, "1"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-f.looked:
	case <-time.After(time.Minute):
		t.Fatal("nobody looks at the slice again")
	}
	record := must(endpointslices.GetWorkOf(t.Context(), f.client, "a", multiclusterv1beta1.EndpointsRecordName("shop", full().Name)))
	if record == nil || exportwork.ExportOf(record) != webKey {
		t.Errorf("the slice's record is %+v", record)
	}
}

// hub is a control plane in memory with a clock.
type hub struct {
	*fleettest.Memory
	clock *clocktesting.FakeClock
}

func newHub(t *testing.T, objects ...client.Object) *hub {
	t.Helper()
	h := &hub{clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	h.Memory = fleettest.InMemory(t, []fleettest.Index{exportwork.AddIndexes}, objects...)
	return h
}

func registeredCluster(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

var webKey = types.NamespacedName{Namespace: "shop", Name: "web"}

// full is a slice with everything in it.
func full() *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-x7k2p", ResourceVersion: "7", Generation: 3,
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
				corev1.IsHeadlessService: "", "karmada.io/managed": "true", "team": "a",
			},
			Annotations: map[string]string{corev1.EndpointsLastChangeTriggerTime: "now"},
		},
		AddressType: discoveryv1.AddressTypeIPv6,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80)), Protocol: new(corev1.ProtocolTCP), AppProtocol: new("h2c")}},
		Endpoints: []discoveryv1.Endpoint{
			{
				Addresses: []string{"2001:db8::1"}, Hostname: new("web-0"), NodeName: new("node-1"), Zone: new("z1"),
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
				TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: "web-0"},
				Hints:      &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z1"}}},
			},
			{Addresses: []string{"2001:db8::2"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}},
		},
	}
}
