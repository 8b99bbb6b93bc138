package apply

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// TestAPanicAboutOneManifestStopsNoOther: the other manifests of the Work are applied, the condition has the panic, and the queue gets it with
// its stack, to log, count and retry it.
func TestAPanicAboutOneManifestStopsNoOther(t *testing.T) {
	b := newBench(t, cluster(), work(t, namespaceShop, mapA))
	panics := true
	b.objects.Retention = func(kind schema.GroupVersionKind) string {
		if kind.Kind == "Namespace" && panics {
			panic("an unexpected object")
		}
		return ""
	}
	err := b.look()
	if panicked, ok := errors.AsType[*controlloop.PanicError](err); !ok || !strings.Contains(string(panicked.Stack), "panic_test.go") {
		t.Errorf("the reconcile ends with %v, want the panic and its stack", err)
	}
	b.wantRequests("PATCH " + pathA)
	c := b.condition(workv1alpha1.WorkApplied)
	if c == nil || c.Status != metav1.ConditionFalse || c.Message != "Failed to apply all manifests (1/2): Namespace shop: panic: an unexpected object" {
		t.Errorf("Applied is %+v", c)
	}
	panics = false
	if err := b.look(); err != nil {
		t.Fatal(err)
	}
	if c := b.condition(workv1alpha1.WorkApplied); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("after the panic Applied is %+v", c)
	}
}
