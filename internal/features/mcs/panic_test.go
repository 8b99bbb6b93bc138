package mcs

import (
	"context"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// panicsAbout has no Service, and panics when that named bad is read.
type panicsAbout struct {
	oneService
	panics *atomic.Bool
}

func (p *panicsAbout) Get(ctx context.Context, ref hubstore.Ref) (*unstructured.Unstructured, error) {
	if ref.Name == "bad" && p.panics.Load() {
		panic("an unexpected object")
	}
	return p.oneService.Get(ctx, ref)
}

// TestAPanicAboutOneServiceStopsNoOther: the other MultiClusterService gets its status, and this one gets it once the panics end.
func TestAPanicAboutOneServiceStopsNoOther(t *testing.T) {
	bad, good := exposed(networkingv1alpha1.ExposureTypeCrossCluster), exposed(networkingv1alpha1.ExposureTypeCrossCluster)
	bad.Name, good.Name = "bad", "good"
	h := newHub(t, bad, good, registeredCluster("a"))
	hub := h.Client.(client.WithWatch)
	mgr, before := fleettest.Manager(t, hub), fleettest.Panics(t, "service")
	services := &panicsAbout{panics: &atomic.Bool{}}
	services.panics.Store(true)
	err := Setup(t.Context(), controlloop.NewSet(nil, clock.RealClock{}).Loop("service").Manager(mgr), Deps{
		Client: hub, Templates: services, Events: events.RecorderFunc(func(events.Event) {}),
	})
	if err != nil {
		t.Fatal(err)
	}
	reported := func(mcs *networkingv1alpha1.MultiClusterService) bool {
		now := &networkingv1alpha1.MultiClusterService{}
		return hub.Get(t.Context(), client.ObjectKeyFromObject(mcs), now) == nil && len(now.Status.Conditions) > 0
	}
	fleettest.Run(t, mgr)
	fleettest.Eventually(t, "the other MultiClusterService has a status", func() bool { return reported(good) })
	fleettest.Eventually(t, "the MultiClusterService is tried again", func() bool { return fleettest.Panics(t, "service")-before >= 3 })
	if reported(bad) {
		t.Error("it has a status already")
	}
	services.panics.Store(false)
	fleettest.Eventually(t, "it has a status after the panics", func() bool { return reported(bad) })
}
