package clients

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// chartKinds are the kinds of the objects in the chart; all have the name of the release, but for the Job.
var chartKinds = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "policy.karmada.io", Version: "v1alpha1", Kind: "PropagationPolicy"},
	{Group: "work.karmada.io", Version: "v1alpha2", Kind: "ResourceBinding"},
}

// TestHealth installs without waiting, and waits until every object of the chart is Current for kstatus, with which Flux waits.
func TestHealth(t *testing.T) {
	namespace := newNamespace(t)
	if err := (helm4{t}).apply(namespace); err != nil {
		t.Fatal(err)
	}
	for _, kind := range chartKinds {
		name := release
		switch kind.Kind {
		case "Job":
			name += "-migrate"
		case "ResourceBinding":
			name += "-deployment"
		}
		t.Run(kind.Kind, func(t *testing.T) {
			expect(t, "hub", kind, namespace, name, func(object *unstructured.Unstructured) error {
				result, err := status.Compute(object)
				if err != nil {
					return err
				}
				if result.Status != status.CurrentStatus {
					return fmt.Errorf("%s: %s", result.Status, result.Message)
				}
				return nil
			})
		})
	}
}

// expect watches the object until the condition holds.
func expect(t *testing.T, cluster string, kind schema.GroupVersionKind, namespace, name string, condition func(*unstructured.Unstructured) error) {
	t.Helper()
	last := errors.New("it does not exist")
	follow(t, cluster, kind, namespace, name, func(object *unstructured.Unstructured) bool {
		if object != nil {
			last = condition(object)
		}
		return last == nil
	})
	if last != nil {
		t.Fatalf("%s %s in %s: %v", kind.Kind, name, cluster, last)
	}
}

// expectGone watches until the object does not exist.
func expectGone(t *testing.T, cluster string, kind schema.GroupVersionKind, namespace, name string) {
	t.Helper()
	exists := true
	follow(t, cluster, kind, namespace, name, func(object *unstructured.Unstructured) bool {
		exists = object != nil
		return !exists
	})
	if exists {
		t.Fatalf("%s %s is still in %s", kind.Kind, name, cluster)
	}
}

// follow calls the function with the object at present and after each change, nil while there is none, until it returns true.
func follow(t *testing.T, cluster string, kind schema.GroupVersionKind, namespace, name string, reached func(*unstructured.Unstructured) bool) {
	t.Helper()
	clients, err := dynamic.NewForConfig(restConfig(t, cluster))
	if err != nil {
		t.Fatal(err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	objects := clients.Resource(resource).Namespace(namespace)
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	list, err := objects.List(ctx, metav1.ListOptions{FieldSelector: only})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 0 {
		if reached(nil) {
			return
		}
	} else if reached(&list.Items[0]) {
		return
	}
	events, err := objects.Watch(ctx, metav1.ListOptions{FieldSelector: only, ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatal(apierrors.FromObject(event.Object))
		}
		if event.Type == watch.Deleted {
			object = nil
		}
		if reached(object) {
			return
		}
	}
}
