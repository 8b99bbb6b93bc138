package fleet

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}}
}

// TestUntilReturnsTheMomentOfTheEvent: a measurement that ends late, or before its objects are gone again, is wrong.
func TestUntilReturnsTheMomentOfTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observer := newObserver()
		handler := observer.Handler("configmaps")
		has := func(want int) func(map[string]any) bool {
			return func(objects map[string]any) bool { return Count(objects, "configmaps", Anything) == want }
		}
		begin := time.Now()
		go func() {
			handler.OnAdd(configMap("a"), true)
			<-time.After(time.Second)
			handler.OnAdd(configMap("b"), false)
			<-time.After(time.Second)
			handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "bench/a", Obj: configMap("a")})
			handler.OnDelete(configMap("b"))
		}()
		if at, err := observer.Until(t.Context(), "objects", has(2)); err != nil || at.Sub(begin) != time.Second {
			t.Errorf("two objects after %v, %v; want them after 1s", at.Sub(begin), err)
		}
		if at, err := observer.Until(t.Context(), "deletion", has(0)); err != nil || at.Sub(begin) != 2*time.Second {
			t.Errorf("no objects after %v, %v; want none after 2s", at.Sub(begin), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := observer.Until(ctx, "what never comes", has(9)); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "what never comes") {
			t.Errorf("the end of the context gives %v", err)
		}
	})
}

func TestObjectsOfOtherKindsAreNotCounted(t *testing.T) {
	objects := map[string]any{"works/bench/a": 1, "worksets/bench/a": 1, "works": 1, "configmaps/bench/works": 1}
	if n := Count(objects, "works", Anything); n != 1 {
		t.Errorf("%d works are counted, want 1", n)
	}
}

func TestAPlaygroundThatEndsIsNotReady(t *testing.T) {
	if err := new(Fleet).waitReady(strings.NewReader("starting\nFlagship is ready: …\n"), io.Discard); err != nil {
		t.Errorf("a playground that is ready: %v", err)
	}
	if err := new(Fleet).waitReady(strings.NewReader("starting\nerror: no memory\n"), io.Discard); err == nil {
		t.Error("a playground that ended counts as ready")
	}
}
