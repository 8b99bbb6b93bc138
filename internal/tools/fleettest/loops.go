package fleettest

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Manager returns a manager that runs loops on a control plane in memory: its client and the informers of its cache are those of hub. It is
// for tests of what happens to a loop as a whole, such as a panic. Run starts it.
func Manager(t testing.TB, hub client.WithWatch) ctrl.Manager {
	t.Helper()
	mgr, err := controlloop.NewManager(&rest.Config{}, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return testrestmapper.TestOnlyStaticRESTMapper(hub.Scheme()), nil
		},
		NewClient: func(*rest.Config, client.Options) (client.Client, error) { return hub, nil },
		Cache: cache.Options{
			NewInformer: func(_ toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
				return toolscache.NewSharedIndexInformer(&listWatch{hub: hub, example: example}, example, resync, indexers)
			},
		},
	}, Patience, func(scheme *runtime.Scheme) error {
		for kind := range hub.Scheme().AllKnownTypes() {
			obj, err := hub.Scheme().New(kind)
			if err != nil {
				return err
			}
			scheme.AddKnownTypeWithName(kind, obj)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// Run runs a manager until the test ends.
func Run(t testing.TB, mgr ctrl.Manager) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
}

// listWatch lists and watches the objects of a kind. It watches from before it lists, since the watches of a control plane in memory cannot
// begin with an earlier version.
type listWatch struct {
	hub     client.WithWatch
	example runtime.Object
	next    watch.Interface
}

func (l *listWatch) list() (client.ObjectList, error) {
	gvk, err := apiutil.GVKForObject(l.example, l.hub.Scheme())
	if err != nil {
		return nil, err
	}
	gvk.Kind += "List"
	made, err := l.hub.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	list, ok := made.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%s is no list", gvk)
	}
	return list, nil
}

// List implements cache.ListerWatcher.
func (l *listWatch) List(metav1.ListOptions) (runtime.Object, error) {
	list, err := l.list()
	if err != nil {
		return nil, err
	}
	if l.next, err = l.hub.Watch(context.Background(), list); err != nil {
		return nil, err
	}
	return list, l.hub.List(context.Background(), list)
}

// Watch implements cache.ListerWatcher.
func (l *listWatch) Watch(metav1.ListOptions) (watch.Interface, error) { return l.next, nil }

// IsWatchListSemanticsUnSupported has informers list.
func (l *listWatch) IsWatchListSemanticsUnSupported() bool { return true }

// Panics returns how many reconciles of a controller have panicked in this process.
func Panics(t testing.TB, controller string) float64 {
	t.Helper()
	return Counted(t, ctrlmetrics.Registry, "controller_runtime_reconcile_panics_total", "controller", controller)
}

// Counted returns the sum of the counters of a metric that have a value of a label.
func Counted(t testing.TB, from prometheus.Gatherer, metric, label, value string) (n float64) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if family.GetName() == metric && l.GetName() == label && l.GetValue() == value {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}
