package imports

import (
	"context"
	"runtime"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// followedWorks is a cache of Works that closes a channel when a loop begins to follow them.
type followedWorks struct {
	*fleettest.Works
	followed chan struct{}
}

func (w followedWorks) GetInformer(ctx context.Context, of client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	close(w.followed)
	return w.Works.GetInformer(ctx, of, options...)
}

// TestNamespacesAreWatchedWhileAnythingIsExported: the watches end with the last export, with a connection, and with Start.
func TestNamespacesAreWatchedWhileAnythingIsExported(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	ctx, stop := context.WithCancel(t.Context())
	fleet := fleettest.LocalFleet(t, member.Config{})
	server, works := fleettest.StartEmptyMember(), followedWorks{fleettest.NewWorks(), make(chan struct{})}
	n := newNamespaces(works, fleet)
	ended := make(chan error)
	go func() { ended <- n.Start(ctx) }()
	<-works.followed
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
