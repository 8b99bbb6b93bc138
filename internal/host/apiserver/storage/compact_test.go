package storage

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// widget has what objects of ours have.
type widget struct {
	metav1.ObjectMeta
	Raw        runtime.RawExtension
	Manifest   runtime.RawExtension
	Conditions []metav1.Condition
	Optional   *corev1.ObjectReference
}

func newWidget() *widget {
	conditions := make([]metav1.Condition, 1, 8)
	conditions[0] = metav1.Condition{Type: string([]byte("Ready")), Message: string([]byte("all is well")), LastTransitionTime: metav1.Now()}
	return &widget{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{string([]byte("app")): "web"}, Finalizers: []string{"a"}},
		Raw:        runtime.RawExtension{Raw: append(make([]byte, 0, 64), `{"a":1}`...)},
		Manifest:   runtime.RawExtension{Raw: bytes.Repeat([]byte("a"), 10_000)},
		Conditions: conditions,
	}
}

func TestCompactChangesNothingButTheSize(t *testing.T) {
	before, after := newWidget(), newWidget()
	after.Conditions[0].LastTransitionTime = before.Conditions[0].LastTransitionTime
	Compact(after)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("it is another object: %s", diff)
	}
	if cap(after.Conditions) != 1 || cap(after.Raw.Raw) >= 64 {
		t.Errorf("there is capacity for %d conditions and %d bytes", cap(after.Conditions), cap(after.Raw.Raw))
	}
	Compact(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"a": int64(1)}}})
	Compact((*widget)(nil))
	Compact(&widget{})
}

func TestEqualStringsAreKeptOnce(t *testing.T) {
	first, second := newWidget(), newWidget()
	Compact(first)
	Compact(second)
	if unsafe.StringData(first.Conditions[0].Message) != unsafe.StringData(second.Conditions[0].Message) {
		t.Error("each has a message of its own")
	}
	if &first.Manifest.Raw[0] != &second.Manifest.Raw[0] {
		t.Error("each has a manifest of its own")
	}
	key := func(w *widget) *byte {
		for k := range w.Labels {
			return unsafe.StringData(k)
		}
		return nil
	}
	if key(first) != key(second) {
		t.Error("each has a key of its own")
	}
}
