package hubstore

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

func (h *hub) expectPanics(n float64) {
	h.t.Helper()
	if got := fleettest.Counted(h.t, h.metrics, "flagship_loop_reconcile_total", "result", "panic"); got != n {
		h.t.Errorf("%v panics are counted, want %v", got, n)
	}
}

// TestKindsAreReadAgainAfterAPanic, at the start and later.
func TestKindsAreReadAgainAfterAPanic(t *testing.T) {
	onPreparedHub(t, func(h *hub) { h.panics = 2 }, func(h *hub) {
		h.expectPanics(2)
		h.put(configmaps, version(metav1.ObjectMeta{Namespace: "shop", Name: "settings"}, "1", 0))
		h.expectNews("a kind that was found after the panics", map[string]int{"v1/ConfigMap shop/settings": 1})
		h.mu.Lock()
		h.panics = 1
		h.mu.Unlock()
		h.serve("batch", list("batch/v1", resource("jobs", "Job")))
		<-time.After(2 * rediscover)
		synctest.Wait()
		h.expectPanics(3)
		h.put(configmaps, version(metav1.ObjectMeta{Namespace: "shop", Name: "settings"}, "2", 0))
		h.expectNews("a kind that was known before", map[string]int{"v1/ConfigMap shop/settings": 1})
		if len(h.store.Kinds()) != 4 {
			t.Errorf("kinds are %v, want the new one, too", h.store.Kinds())
		}
	})
}

// TestAPanicOfASubscriberIsThatOfOneObject: it is notified of the others meanwhile, and of this one again.
func TestAPanicOfASubscriberIsThatOfOneObject(t *testing.T) {
	panics := 2
	onPreparedHub(t, func(h *hub) {
		h.store.subscribers = append([]func(Ref){func(ref Ref) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if ref.Name == "bad" && panics > 0 {
				panics--
				panic("an unexpected object")
			}
		}}, h.store.subscribers...)
	}, func(h *hub) {
		h.put(configmaps, version(metav1.ObjectMeta{Namespace: "shop", Name: "bad"}, "1", 0))
		h.put(configmaps, version(metav1.ObjectMeta{Namespace: "shop", Name: "good"}, "2", 0))
		<-time.After(time.Minute)
		synctest.Wait()
		h.expectNews("both objects", map[string]int{"v1/ConfigMap shop/bad": 1, "v1/ConfigMap shop/good": 1})
		h.expectPanics(2)
	})
}
