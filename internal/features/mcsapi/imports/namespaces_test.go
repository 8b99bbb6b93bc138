package imports

import (
	"context"
	"runtime"
	"testing"

	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestNamespacesAreWatchedWhileAnythingIsExported: the watches end with the last export, with a connection, and with Start.
func TestNamespacesAreWatchedWhileAnythingIsExported(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	ctx, stop := context.WithCancel(t.Context())
	fleet := fleettest.LocalFleet(t, member.Config{})
	server, works := fleettest.StartEmptyMember(), fleettest.NewWorks()
	n := newNamespaces(works, fleet)
	handled := make(chan struct{})
	ended := make(chan error)
	go func() { close(handled); ended <- n.Start(ctx) }()
	<-handled
	for _, name := range []string{"a", "b"} {
		server.Connect(t, fleet, name)
	}
	open := func(count int64) {
		t.Helper()
		server.ExpectWatches(t, count)
	}
	record := recordIn("a", 0)
	n.count(record, true)
	open(2)
	fleettest.Eventually(t, "the namespaces are known", func() bool {
		present, known := n.has("b", "shop")
		return known && !present
	})
	if _, known := n.has("c", "shop"); known {
		t.Error("the namespaces of a cluster without a connection are known")
	}
	fleet.Remove("a")
	open(1)
	n.count(record, false)
	open(0)
	n.count(record, true)
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
