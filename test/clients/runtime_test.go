package clients

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// copier applies a copy of each ConfigMap with a label, as operators do: it reads from a cache and writes with server-side apply.
type copier struct{ client.Client }

func (c copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	original := &corev1.ConfigMap{}
	if err := c.Get(ctx, request.NamespacedName, original); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if original.Labels["copy"] == "" {
		return ctrl.Result{}, nil
	}
	duplicate := corev1apply.ConfigMap(original.Labels["copy"], original.Namespace).WithData(original.Data)
	return ctrl.Result{}, c.Apply(ctx, duplicate, client.FieldOwner("copier"), client.ForceOwnership)
}

func TestControllerRuntime(t *testing.T) {
	namespace := newNamespace(t)
	manager, err := ctrl.NewManager(restConfig(t, "hub"), ctrl.Options{
		Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics:                 server.Options{BindAddress: "0"},
		LeaderElection:          true,
		LeaderElectionID:        "copier",
		LeaderElectionNamespace: namespace,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Complete(copier{manager.GetClient()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})

	hub := newClient(t, "hub")
	original := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "original", Labels: map[string]string{"copy": "duplicate"}},
		Data:       map[string]string{"color": "blue"},
	}
	if err := hub.Create(t.Context(), original); err != nil {
		t.Fatal(err)
	}
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	expect(t, "hub", kind, namespace, "duplicate", hasColor("blue"))
	change := client.MergeFrom(original.DeepCopy())
	original.Data["color"] = "green"
	if err := hub.Patch(t.Context(), original, change); err != nil {
		t.Fatal(err)
	}
	expect(t, "hub", kind, namespace, "duplicate", hasColor("green"))
}

func hasColor(color string) func(*unstructured.Unstructured) error {
	return func(object *unstructured.Unstructured) error {
		if actual, _, err := unstructured.NestedString(object.Object, "data", "color"); err != nil || actual != color {
			return fmt.Errorf("the color is %q, not %q: %w", actual, color, err)
		}
		return nil
	}
}
