package controlloop_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

func configs(t *testing.T, objects ...client.Object) ctrl.Manager {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fleettest.Manager(t, fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build())
}

// TestALoopWaitsForItsCaches: its check names the cache whose objects its event handlers have not had yet.
func TestALoopWaitsForItsCaches(t *testing.T) {
	set, _, _ := newSet()
	hub := configs(t, config("a", 1))
	mgr := set.Loop("propagate").Manager(hub)
	registered, handle := make(chan struct{}), make(chan struct{})
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		informer, err := mgr.GetCache().GetInformer(ctx, &corev1.ConfigMap{})
		if err != nil {
			return err
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-handle }})
		close(registered)
		<-ctx.Done()
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	fleettest.Run(t, hub)
	<-registered
	if err := set.Loop("propagate").Check(); err == nil || err.Error() != "these caches have not synced yet: ConfigMap" {
		t.Errorf("while an object is being handled the check returns %v", err)
	}
	close(handle)
	fleettest.Eventually(t, "the loop is ready", func() bool { return set.Loop("propagate").Check() == nil })
}

// TestAPanicOfAnIndexFunctionIsThatOfOneObject: handlers get the object nevertheless, and all others.
func TestAPanicOfAnIndexFunctionIsThatOfOneObject(t *testing.T) {
	set, registry, _ := newSet()
	hub := configs(t, config("bad", 1), config("good", 1))
	mgr := set.Loop("propagate").Manager(hub)
	err := mgr.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "index", func(obj client.Object) []string {
		if obj.GetName() == "bad" {
			panic("an unexpected object")
		}
		return []string{"indexed"}
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 2)
	informer, err := mgr.GetCache().GetInformer(t.Context(), &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { seen <- obj.(client.Object).GetName() }}); err != nil {
		t.Fatal(err)
	}
	fleettest.Run(t, hub)
	got := []string{<-seen, <-seen}
	if joined := strings.Join(got, " "); joined != "bad good" && joined != "good bad" {
		t.Errorf("the handler has %v", got)
	}
	var list corev1.ConfigMapList
	if err := mgr.GetCache().List(t.Context(), &list, client.MatchingFields{"index": "indexed"}); err != nil || len(list.Items) != 1 {
		t.Errorf("the index has %d objects, %v; want the other one", len(list.Items), err)
	}
	if diff := cmp.Diff(map[string]float64{"panic": 1}, results(t, registry, "flagship_loop_reconcile_total")); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}
