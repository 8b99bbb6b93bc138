package hubclient

import (
	"context"
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// informers has one informer, which calls its handler when a test does.
type informers struct {
	cache.Informers
	cache.Informer
	handler toolscache.ResourceEventHandler
	removed bool
	err     error
}

func (i *informers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return i, i.err
}

func (i *informers) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	return registration{}, nil
}

func (i *informers) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error {
	i.removed = true
	return nil
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration
}

func (registration) HasSynced() bool { return true }

// TestFollow: every event leads to one call, also that of an object whose deletion the watch missed.
func TestFollow(t *testing.T) {
	var calls []string
	name := func(work *workv1alpha1.Work) string {
		if work == nil {
			return "-"
		}
		return work.Name
	}
	from := &informers{}
	synced, stop, err := Follow(t.Context(), from, func(before, after *workv1alpha1.Work, initial bool) {
		call := name(before) + ">" + name(after)
		if initial {
			call += " at first"
		}
		calls = append(calls, call)
	})
	if err != nil || !synced() {
		t.Fatalf("synced %v, %v", synced != nil && synced(), err)
	}
	work := func(name string) *workv1alpha1.Work {
		return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	from.handler.OnAdd(work("a"), true)
	from.handler.OnAdd(work("b"), false)
	from.handler.OnUpdate(work("a"), work("a2"))
	from.handler.OnDelete(work("b"))
	from.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "a", Obj: work("a2")})
	from.handler.OnDelete("not an object")
	if want := []string{"->a at first", "->b", "a>a2", "b>-", "a2>-"}; !slices.Equal(calls, want) {
		t.Errorf("the calls are %q, want %q", calls, want)
	}
	if stop(); !from.removed {
		t.Error("the handler stays")
	}
	cause := errors.New("no such kind")
	if _, _, err := Follow(t.Context(), &informers{err: cause}, func(_, _ *workv1alpha1.Work, _ bool) {}); !errors.Is(err, cause) {
		t.Errorf("the error is %v, want %v", err, cause)
	}
}
