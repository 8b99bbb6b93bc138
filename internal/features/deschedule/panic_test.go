package deschedule

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// panicking is a client that panics about the binding of the Deployment broken.
type panicking struct{ client.Client }

func (p panicking) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if key.Name == workv1alpha2.BindingName("Deployment", "broken") {
		panic("an unexpected object")
	}
	return p.Client.Get(ctx, key, obj, opts...)
}

// TestAPanicAboutOneDeploymentStopsNothing: the others are limited, and the checks go on.
func TestAPanicAboutOneDeploymentStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, registry := web(1), prometheus.NewRegistry()
		hub, checks := fleettest.InMemory(t, nil, b), 0
		d := newDescheduler(Deps{
			Config: defaults, Client: panicking{hub.Client}, Clock: clock.RealClock{}, Events: events.RecorderFunc(func(events.Event) {}),
			Unplaced: func(visit func(string, types.NamespacedName, types.UID)) {
				if checks++; checks == 2 {
					panic("an unexpected pod")
				}
				for _, name := range []string{"broken", "web"} {
					visit("a", types.NamespacedName{Namespace: "shop", Name: name}, types.UID(name))
				}
			},
		})
		d.loop = controlloop.NewSet(registry, d.Clock).Loop("deschedule")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.run(ctx) }()
		<-time.After(10*time.Minute + time.Second)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil || checks < 9 {
			t.Errorf("%d checks, %v", checks, err)
		}
		if err := hub.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
			t.Fatal(err)
		}
		if limits := workv1alpha2.ReplicaLimits(b, d.Clock.Now()); limits["a"].Replicas != 3 {
			t.Errorf("limits are %v, want 3 replicas in the cluster where one cannot run", limits)
		}
		if n := testutil.CollectAndCount(registry, "flagship_loop_reconcile_total"); n != 1 {
			t.Errorf("%d results are counted, want panics alone", n)
		}
	})
}
