package overlay_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/api"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/host/preview/overlay"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const byColour = "colour"

func colours(obj client.Object) []string { return []string{obj.GetLabels()["colour"]} }

func indexed(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &workv1alpha1.Work{}, byColour, colours)
}

func work(name, colour string) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-m1", Name: name, Labels: map[string]string{"colour": colour}}}
}

// view is a view of a control plane that has some Works.
func view(t *testing.T, present ...client.Object) (*overlay.Hub, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	base := fleettest.InMemory(t, []fleettest.Index{indexed}, present...).Client
	ids := 0
	admit := func(context.Context, schema.GroupVersionKind, client.Object, client.Object) error { return nil }
	hub := overlay.NewHub(scheme, base, admit, func() string { ids++; return fmt.Sprint(ids) }, clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0)))
	if err := indexed(t.Context(), hub); err != nil {
		t.Fatal(err)
	}
	return hub, base
}

// names lists the Works that options select.
func names(t *testing.T, reader client.Reader, options ...client.ListOption) []string {
	t.Helper()
	works, err := hubclient.ListWorks(t.Context(), reader, options...)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, w := range works {
		out = append(out, w.Name)
	}
	return out
}

func TestWritesStayInTheView(t *testing.T) {
	hub, base := view(t, work("a", "red"), work("b", "blue"), work("c", "red"))
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(hub.Create(ctx, work("d", "red")))
	if err := hub.Create(ctx, work("a", "red")); !apierrors.IsAlreadyExists(err) {
		t.Errorf("an object is created twice: %v", err)
	}
	must(hub.Delete(ctx, work("c", "")))
	if err := hub.Delete(ctx, work("c", "")); !apierrors.IsNotFound(err) {
		t.Errorf("an object is deleted twice: %v", err)
	}
	b := &workv1alpha1.Work{}
	must(hub.Get(ctx, client.ObjectKey{Namespace: "karmada-es-m1", Name: "b"}, b))
	old := b.DeepCopy()
	b.Labels["colour"] = "red"
	must(hub.Update(ctx, b))
	if err := hub.Update(ctx, old); !apierrors.IsConflict(err) {
		t.Errorf("an old object is written: %v", err)
	}
	for _, tc := range []struct {
		selector client.ListOption
		want     []string
	}{
		{client.MatchingFields{byColour: "red"}, []string{"a", "b", "d"}},
		{client.MatchingFields{byColour: "blue"}, nil},
		{client.MatchingLabels{"colour": "red"}, []string{"a", "b", "d"}},
		{client.InNamespace("karmada-es-m1"), []string{"a", "b", "d"}},
		{client.InNamespace("karmada-es-m2"), nil},
	} {
		if diff := cmp.Diff(tc.want, names(t, hub, tc.selector)); diff != "" {
			t.Errorf("%v: -want +got\n%s", tc.selector, diff)
		}
	}
	b.Labels["colour"] = "green"
	must(hub.Update(ctx, b))
	if diff := cmp.Diff([]string{"a", "d"}, names(t, hub, client.MatchingFields{byColour: "red"})); diff != "" {
		t.Errorf("after a second write: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, names(t, base)); diff != "" {
		t.Errorf("the control plane changed: -want +got\n%s", diff)
	}
}

func TestChangesAreThoseSinceTheMark(t *testing.T) {
	hub, _ := view(t, work("a", "red"))
	ctx := t.Context()
	key := client.ObjectKey{Namespace: "karmada-es-m1", Name: "a"}
	patch := func(colour string) {
		t.Helper()
		a := &workv1alpha1.Work{}
		if err := hub.Get(ctx, key, a); err != nil {
			t.Fatal(err)
		}
		before := a.DeepCopy()
		a.Labels["colour"] = colour
		if err := hub.Patch(ctx, a, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	patch("blue")
	patch("green")
	if changes := hub.Changes(); len(changes) != 1 || changes[0].Before.GetLabels()["colour"] != "red" || changes[0].After.GetLabels()["colour"] != "green" {
		t.Errorf("changes are %v", changes)
	}
	if events := hub.TakeEvents(); len(events) != 2 || len(hub.TakeEvents()) != 0 {
		t.Errorf("there are %d events", len(events))
	}
	patch("green")
	if events := hub.TakeEvents(); len(events) != 0 {
		t.Errorf("a write without a change is an event: %v", events)
	}
	patch("red")
	if changes := hub.Changes(); len(changes) != 0 {
		t.Errorf("what is as before is a change: %v", changes)
	}
	hub.Mark()
	patch("blue")
	if changes := hub.Changes(); len(changes) != 1 || changes[0].Before.GetLabels()["colour"] != "red" {
		t.Errorf("changes since the mark are %v", changes)
	}
}

func TestFinalizersAndSubresources(t *testing.T) {
	kept := work("a", "red")
	kept.Finalizers = []string{"flagship.io/test"}
	hub, _ := view(t, kept)
	ctx := t.Context()
	if err := hub.Delete(ctx, kept.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	a := &workv1alpha1.Work{}
	if err := hub.Get(ctx, client.ObjectKeyFromObject(kept), a); err != nil || a.DeletionTimestamp == nil {
		t.Fatalf("an object with a finalizer: %v", err)
	}
	a.Spec.SuspendDispatching, a.Status.Conditions = new(true), []metav1.Condition{{Type: "x", Status: "True"}}
	if err := hub.Status().Update(ctx, a); err != nil || a.Spec.SuspendDispatching != nil || len(a.Status.Conditions) != 1 || a.Generation != kept.Generation {
		t.Errorf("a status: %v, %+v", err, a)
	}
	a.Spec.SuspendDispatching, a.Status.Conditions = new(true), nil
	if err := hub.Update(ctx, a); err != nil || a.Spec.SuspendDispatching == nil || len(a.Status.Conditions) != 1 || a.Generation != kept.Generation+1 {
		t.Errorf("a spec: %v, %+v", err, a)
	}
	if err := hubclient.RemoveFinalizer(ctx, hub, a, "flagship.io/test"); err != nil {
		t.Fatal(err)
	}
	if err := hub.Get(ctx, client.ObjectKeyFromObject(kept), a); !apierrors.IsNotFound(err) {
		t.Errorf("without its finalizer: %v", err)
	}
}

func TestTemplates(t *testing.T) {
	kind := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	templates := overlay.NewTemplates(nil, func(ref hubstore.Ref) bool { return ref.Namespace == "skipped" })
	templates.AddKind(hubstore.Kind{GroupVersionKind: kind, Resource: kind.GroupVersion().WithResource("configmaps"), Namespaced: true})
	var notified []string
	templates.OnChange(func(ref hubstore.Ref) { notified = append(notified, ref.Name) })
	set := func(namespace, name string) hubstore.Ref {
		obj := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"a": "b"}}}
		obj.SetGroupVersionKind(kind)
		obj.SetNamespace(namespace)
		obj.SetName(name)
		obj.SetUID("1")
		ref := hubstore.RefOf(obj)
		if err := templates.Set(t.Context(), ref, obj); err != nil {
			t.Fatal(err)
		}
		return ref
	}
	ref := set("shop", "a")
	set("skipped", "b")
	set("shop", "c")
	if list := templates.List(kind, "", labels.Everything()); len(list) != 2 || list[0].Name != "a" {
		t.Errorf("the list is %v", list)
	}
	patched, err := templates.PatchMetadata(t.Context(), ref, []byte(`{"metadata":{"uid":"1","labels":{"x":"y"}}}`))
	if err != nil || patched.GetLabels()["x"] != "y" || patched.Object["data"] == nil {
		t.Errorf("a patch: %v, %v", err, patched)
	}
	if _, err := templates.PatchMetadata(t.Context(), ref, []byte(`{"metadata":{"uid":"2"}}`)); !apierrors.IsConflict(err) {
		t.Errorf("a patch of another object: %v", err)
	}
	templates.Mark()
	if err := templates.Set(t.Context(), ref, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := templates.Get(t.Context(), ref); !apierrors.IsNotFound(err) {
		t.Errorf("a deleted template: %v", err)
	}
	if changes := templates.Changes(); len(changes) != 1 || changes[0].Before.GetLabels()["x"] != "y" || changes[0].After != nil {
		t.Errorf("changes are %v", changes)
	}
	if want := []string{"a", "b", "c", "a", "a"}; !cmp.Equal(notified, want) {
		t.Errorf("notified of %v, want %v", notified, want)
	}
}
