package hubclient

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const finalizer = "example.io/finalizer"

// counting returns a client with a ConfigMap, and the number of its patches.
func counting(t *testing.T, finalizers ...string) (client.Client, *corev1.ConfigMap, *int) {
	t.Helper()
	patches := new(int)
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
			*patches++
			return c.Patch(ctx, obj, patch, options...)
		},
	}).Build()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Finalizers: finalizers}, Data: map[string]string{"a": "1"}}
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	return c, obj, patches
}

func stored(t *testing.T, c client.Client) *corev1.ConfigMap {
	t.Helper()
	obj := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestPatchSendsDifferencesOnly(t *testing.T) {
	c, before, patches := counting(t)
	if changed, err := Patch(t.Context(), c, before, before.DeepCopy()); changed || err != nil || *patches != 0 {
		t.Errorf("equal objects: changed %v, %v, %d patches", changed, err, *patches)
	}
	after := before.DeepCopy()
	after.Data["b"] = "2"
	if changed, err := Patch(t.Context(), c, before, after); !changed || err != nil || *patches != 1 {
		t.Errorf("different objects: changed %v, %v, %d patches", changed, err, *patches)
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2"}, stored(t, c).Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if err := c.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if _, err := Patch(t.Context(), c, before, after); !apierrors.IsNotFound(err) {
		t.Errorf("an object that is gone: %v", err)
	}
}

func TestFinalizers(t *testing.T) {
	c, obj, patches := counting(t, "example.io/first")
	if err := RemoveFinalizer(t.Context(), c, obj, finalizer); err != nil || *patches != 0 {
		t.Errorf("removing what is not there: %v, %d patches", err, *patches)
	}
	if err := AddFinalizer(t.Context(), c, obj, finalizer); err != nil {
		t.Fatal(err)
	}
	if err := AddFinalizer(t.Context(), c, obj, "example.io/late"); !apierrors.IsConflict(err) {
		t.Errorf("adding to an object that was changed meanwhile: %v", err)
	}
	obj = stored(t, c)
	if diff := cmp.Diff([]string{"example.io/first", finalizer}, obj.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	if err := AddFinalizer(t.Context(), c, obj, finalizer); err != nil || *patches != 2 {
		t.Errorf("adding what is there: %v, %d patches", err, *patches)
	}
	changed := obj.DeepCopy()
	changed.Data["b"] = "2"
	if err := c.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if err := RemoveFinalizer(t.Context(), c, obj, finalizer); err != nil {
		t.Errorf("removing from an object that was changed meanwhile: %v", err)
	}
	if diff := cmp.Diff([]string{"example.io/first"}, stored(t, c).Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
}
