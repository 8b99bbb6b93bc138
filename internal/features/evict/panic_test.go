package evict

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// panicking is a client whose first list of Clusters panics.
type panicking struct {
	client.Client
	lists int
}

func (p *panicking) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*clusterv1alpha1.ClusterList); ok {
		if p.lists++; p.lists == 1 {
			panic("an unexpected object")
		}
	}
	return p.Client.List(ctx, list, opts...)
}

// TestACheckOfClustersThatPanicsIsRepeated without a further change of a Cluster.
func TestACheckOfClustersThatPanicsIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, registry := newHub(t, nil), prometheus.NewRegistry()
		lists := &panicking{Client: h.Client}
		h.Client, h.Clock = lists, clock.RealClock{}
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())
		defer q.ShutDown()
		w := &clusterChecker{
			Reconciler: h.Reconciler, loop: controlloop.NewSet(registry, h.Clock).Loop("evict"), clusters: make(chan struct{}, 1), queue: make(chan queue, 1),
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Start(ctx) }()
		if err := w.start(ctx, q); err != nil {
			t.Fatal(err)
		}
		w.clusters <- struct{}{}
		<-time.After(2 * period)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if lists.lists != 2 {
			t.Errorf("clusters are listed %d times, want once more after the panic", lists.lists)
		}
		if n := testutil.CollectAndCount(registry, "flagship_loop_reconcile_total"); n != 2 {
			t.Errorf("%d results are counted, want a panic and a success", n)
		}
	})
}
