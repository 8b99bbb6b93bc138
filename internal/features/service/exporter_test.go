package service

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
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
func stored[T any](v view[T], tell followHandlers) *following[T] {
	return &following[T]{view: v, followHandlers: tell, items: map[types.NamespacedName]T{}}
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
	f.exports = member.NewQueues("exports", fleet, clock.RealClock{}, 1, func(context.Context, string, types.NamespacedName) (time.Duration, error) { return 0, nil })
	f.endpoints = member.NewQueues("endpoints", fleet, clock.RealClock{}, 1, func(ctx context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
		again, err := f.reconcileEndpoints(ctx, cluster, key)
		f.looked <- key
		return again, err
	})
	go func() { _ = f.endpoints.Start(t.Context()) }()
	complete := func() { f.complete("a") }
	f.space = &exportingSpace{
		services: stored(viewed(keepService), followHandlers{changed: func(types.NamespacedName) {}, complete: complete}),
		slices: stored(keptSlices(exported), followHandlers{
			changed: func(slice types.NamespacedName) { f.endpoints.Add("a", slice) }, complete: complete,
		}),
	}
	exports := stored(viewed(func(obj any) (*multiclusterv1beta1.ServiceExport, bool, error) {
		return obj.(*multiclusterv1beta1.ServiceExport), true, nil
	}), followHandlers{changed: func(types.NamespacedName) {}, complete: complete})
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
	record := must(workIn(t.Context(), f.client, "a", multiclusterv1beta1.EndpointsRecordName("shop", full().Name)))
	if record == nil || exportOf(record) != webKey {
		t.Errorf("the slice's record is %+v", record)
	}
}
