package mcsapi

import (
	"context"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestMembersThatComeAndGoLeaveNothing: a member is watched once the definition of exports was applied, its watches end with its
// connection, and all goroutines end with Start.
func TestMembersThatComeAndGoLeaveNothing(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	ctx, stop := context.WithCancel(t.Context())
	fleet := fleettest.LocalFleet(t, member.Config{})
	server, works := fleettest.StartEmptyMember(), fleettest.NewWorks()
	work := workv1alpha1.NewWork(endpointslices.WorkKey("a", exportwork.ExportDefinition), nil)
	memory := fleettest.InMemory(t, []fleettest.Index{exportwork.AddIndexes}, work)
	e := newExporter(works, Deps{Client: memory.Client, Fleet: fleet, Clock: clock.RealClock{}, Workers: 2})
	ended := make(chan error)
	go func() { ended <- e.Start(ctx) }()
	connect := func() {
		t.Helper()
		server.Connect(t, fleet, "a")
	}
	open := func(n int64) {
		t.Helper()
		server.ExpectWatches(t, n)
	}
	connect()
	if m, _ := e.watched("a", ""); m != nil {
		t.Error("exports are watched before the definition was applied")
	}
	work.Status.Conditions = []metav1.Condition{workv1alpha1.Applied(1)}
	if err := memory.Client.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, "exports are watched", func() bool {
		e.workChanged(work)
		return server.Watches.Load() == 1
	})
	fleet.Remove("a")
	open(0)
	connect()
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
