package controlloop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// calls is an event handler that notes its calls, and panics about the objects named bad as often as panics has.
type calls struct {
	mu     sync.Mutex
	panics int
	seen   []string
}

func (c *calls) call(name, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "bad" && c.panics > 0 {
		c.panics--
		panic("an unexpected object")
	}
	c.seen = append(c.seen, text)
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

func shown(obj any) (name, text string) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		name, text := shown(tombstone.Obj)
		return name, "last " + text
	}
	config := obj.(*corev1.ConfigMap)
	return config.Name, config.Name + config.ResourceVersion
}

func (c *calls) OnAdd(obj any, initial bool) {
	name, text := shown(obj)
	c.call(name, fmt.Sprintf("add %s %t", text, initial))
}

func (c *calls) OnUpdate(before, after any) {
	name, text := shown(after)
	_, was := shown(before)
	c.call(name, fmt.Sprintf("update %s to %s", was, text))
}

func (c *calls) OnDelete(obj any) {
	name, text := shown(obj)
	c.call(name, "delete "+text)
}

func config(name string, version int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: fmt.Sprint(version)}}
}

// handled runs a handler that belongs to a loop, and returns what was logged and counted.
func handled(t *testing.T, handler *calls, story func(toolscache.ResourceEventHandler)) (log string, counted map[string]float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	handlers := controlloop.NewSet(registry, clock.RealClock{}).Loop("aggregate").Handlers()
	var lines strings.Builder
	wrapped := handlers.Wrap(funcr.New(func(_, args string) { lines.WriteString(args + "\n") }, funcr.Options{}), handler)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- handlers.Start(ctx) }()
	story(wrapped)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return lines.String(), results(t, registry, "flagship_loop_reconcile_total")
}

// TestAPanicOfAnEventHandlerIsThatOfOneEvent: other events are handled meanwhile, and this one is again until that succeeds.
func TestAPanicOfAnEventHandlerIsThatOfOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := &calls{panics: 3}
		log, counted := handled(t, handler, func(h toolscache.ResourceEventHandler) {
			h.OnAdd(config("bad", 1), true)
			h.OnAdd(config("good", 2), true)
			if diff := cmp.Diff([]string{"add good2 true"}, handler.all()); diff != "" {
				t.Errorf("at first (-want +got):\n%s", diff)
			}
			<-time.After(time.Minute)
			synctest.Wait()
		})
		if diff := cmp.Diff([]string{"add good2 true", "add bad1 true"}, handler.all()); diff != "" {
			t.Errorf("in the end (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]float64{"panic": 3}, counted); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
		if strings.Count(log, `"stack"=`) != 2 || !strings.Contains(log, `"object"="shop/bad"`) || !strings.Contains(log, "handlers_test.go") {
			t.Errorf("the log has not the first and the second panic with their stacks:\n%s", log)
		}
	})
}

// TestEventsOfAnObjectAreOneAfterAPanic: a handler that panicked about an event gets the next one of the object as if it were the first.
func TestEventsOfAnObjectAreOneAfterAPanic(t *testing.T) {
	for name, tc := range map[string]struct {
		events func(toolscache.ResourceEventHandler)
		want   string
	}{
		"created and changed": {func(h toolscache.ResourceEventHandler) {
			h.OnAdd(config("bad", 1), true)
			h.OnUpdate(config("bad", 1), config("bad", 2))
		}, "add bad2 true"},
		"changed twice": {func(h toolscache.ResourceEventHandler) {
			h.OnUpdate(config("bad", 1), config("bad", 2))
			h.OnUpdate(config("bad", 2), config("bad", 3))
		}, "update bad1 to bad3"},
		"deleted and created": {func(h toolscache.ResourceEventHandler) {
			h.OnDelete(config("bad", 1))
			h.OnAdd(config("bad", 2), false)
		}, "update bad1 to bad2"},
		"deletion missed and created": {func(h toolscache.ResourceEventHandler) {
			h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "shop/bad", Obj: config("bad", 1)})
			h.OnAdd(config("bad", 2), false)
		}, "update bad1 to bad2"},
		"changed and deleted": {func(h toolscache.ResourceEventHandler) {
			h.OnUpdate(config("bad", 1), config("bad", 2))
			h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "shop/bad", Obj: config("bad", 3)})
		}, "delete last bad3"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler := &calls{panics: 1}
				handled(t, handler, func(h toolscache.ResourceEventHandler) {
					tc.events(h)
					<-time.After(time.Minute)
					synctest.Wait()
				})
				if diff := cmp.Diff([]string{tc.want}, handler.all()); diff != "" {
					t.Errorf("the handler was called for (-want +got):\n%s", diff)
				}
			})
		})
	}
}
