package apiserver_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

func namesIn(t *testing.T, works dynamic.ResourceInterface, options metav1.ListOptions) []string {
	t.Helper()
	list, err := works.List(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}

// TestWorkDryRuns: every verb that writes can be tried, and then changes nothing.
func TestWorkDryRuns(t *testing.T) {
	works, dry := in(t, worksResource), []string{metav1.DryRunAll}
	before := stored(t, works, workHead, "w", manifests)
	patch := []byte(`{"spec": {"suspendDispatching": true}}`)
	changed := before.DeepCopy()
	if err := unstructured.SetNestedField(changed.Object, true, "spec", "suspendDispatching"); err != nil {
		t.Fatal(err)
	}
	for verb, try := range map[string]func() (*unstructured.Unstructured, error){
		"create": func() (*unstructured.Unstructured, error) {
			return works.Create(t.Context(), parsed(t, workHead, "new", manifests), metav1.CreateOptions{DryRun: dry})
		},
		"update": func() (*unstructured.Unstructured, error) {
			return works.Update(t.Context(), changed, metav1.UpdateOptions{DryRun: dry})
		},
		"patch": func() (*unstructured.Unstructured, error) {
			return works.Patch(t.Context(), "w", types.MergePatchType, patch, metav1.PatchOptions{DryRun: dry})
		},
		"apply": func() (*unstructured.Unstructured, error) {
			return works.Apply(t.Context(), "w", parsed(t, workHead, "w", "{suspendDispatching: true}"), metav1.ApplyOptions{DryRun: dry, FieldManager: "me"})
		},
		"delete": func() (*unstructured.Unstructured, error) {
			return before, works.Delete(t.Context(), "w", metav1.DeleteOptions{DryRun: dry})
		},
		"deletecollection": func() (*unstructured.Unstructured, error) {
			return before, works.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{})
		},
	} {
		if answer, err := try(); err != nil || answer.GetUID() == "" {
			t.Errorf("%s: answered %v: %v", verb, answer, err)
		}
	}
	after, err := works.Get(t.Context(), "w", metav1.GetOptions{})
	if err != nil || after.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("it was written: %v, %v", after, err)
	}
	if got := namesIn(t, works, metav1.ListOptions{}); !slices.Equal(got, []string{"w"}) {
		t.Errorf("there are %q", got)
	}
}

// TestWorkCollections: lists are selected and cut into pages, and deleted as they are selected.
func TestWorkCollections(t *testing.T) {
	works := in(t, worksResource)
	for _, name := range []string{"a", "b", "c"} {
		work := parsed(t, workHead, name, manifests)
		work.SetLabels(map[string]string{"last": fmt.Sprint(name == "c")})
		if _, err := works.Create(t.Context(), work, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for field, want := range map[string][]string{
		"metadata.name=b": {"b"}, "metadata.name!=b": {"a", "c"}, "metadata.namespace=elsewhere": nil,
	} {
		if got := namesIn(t, works, metav1.ListOptions{FieldSelector: field}); !slices.Equal(got, want) {
			t.Errorf("%s selects %q, want %q", field, got, want)
		}
	}
	if _, err := works.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.suspendDispatching=true"}); !apierrors.IsBadRequest(err) {
		t.Errorf("a selector of another field: %v", err)
	}
	page, err := works.List(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil || len(page.Items) != 2 || page.GetContinue() == "" {
		t.Fatalf("the first page is %v: %v", page, err)
	}
	if got := namesIn(t, works, metav1.ListOptions{Limit: 2, Continue: page.GetContinue()}); !slices.Equal(got, []string{"c"}) {
		t.Errorf("the second page has %q", got)
	}
	if err := works.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "last=false"}); err != nil {
		t.Fatal(err)
	}
	if got := namesIn(t, works, metav1.ListOptions{}); !slices.Equal(got, []string{"c"}) {
		t.Errorf("%q are left", got)
	}
}

// TestWorkWatch: a watch can begin with what there is, and marks the end of that.
func TestWorkWatch(t *testing.T) {
	works := in(t, worksResource)
	stored(t, works, workHead, "there", manifests)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	yes := true
	watching, err := works.Watch(ctx, metav1.ListOptions{
		SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
	next := func(kind watch.EventType) *unstructured.Unstructured {
		t.Helper()
		for e := range watching.ResultChan() {
			object, ok := e.Object.(*unstructured.Unstructured)
			if !ok || e.Type != kind && e.Type != watch.Bookmark {
				t.Fatalf("it sent %s %v, want %s", e.Type, e.Object, kind)
			}
			if e.Type == kind {
				return object
			}
		}
		t.Fatal("the watch ended")
		return nil
	}
	if got := next(watch.Added).GetName(); got != "there" {
		t.Errorf("first it sent %s", got)
	}
	if mark := next(watch.Bookmark); mark.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
		t.Errorf("the bookmark is %v", mark)
	}
	if _, err := works.Patch(t.Context(), "there", types.MergePatchType, []byte(`{"spec": {"suspendDispatching": true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := next(watch.Modified); got.GetGeneration() != 2 {
		t.Errorf("then it sent generation %d", got.GetGeneration())
	}
	if err := works.Delete(t.Context(), "there", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next(watch.Deleted)
}

// TestWorkFieldsHaveManagers: what one has applied another takes by force only.
func TestWorkFieldsHaveManagers(t *testing.T) {
	works := in(t, worksResource)
	apply := func(manager string, force bool, spec string) error {
		_, err := works.Apply(t.Context(), "w", parsed(t, workHead, "w", spec), metav1.ApplyOptions{FieldManager: manager, Force: force})
		return err
	}
	if err := apply("first", false, "{suspendDispatching: true, workload: {manifests: []}}"); err != nil {
		t.Fatal(err)
	}
	if err := apply("second", false, "{suspendDispatching: false}"); !apierrors.IsConflict(err) ||
		!strings.Contains(err.Error(), `"first"`) || !strings.Contains(err.Error(), ".spec.suspendDispatching") {
		t.Errorf("without force: %v", err)
	}
	if err := apply("second", true, "{suspendDispatching: false}"); err != nil {
		t.Errorf("with force: %v", err)
	}
	if _, err := works.Patch(t.Context(), "w", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{Force: new(true)}); !apierrors.IsInvalid(err) {
		t.Errorf("force is for apply alone: %v", err)
	}
}

// TestWorkStatusVerbs: status is read, replaced and patched in each way, and a condition that a client applied is kept.
func TestWorkStatusVerbs(t *testing.T) {
	works := in(t, worksResource)
	work := stored(t, works, workHead, "w", manifests)
	condition := func(kind string) map[string]any {
		return map[string]any{"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}
	}
	work.Object["status"] = map[string]any{"conditions": []any{condition("Updated")}}
	if _, err := works.UpdateStatus(t.Context(), work, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	add := `[{"op": "add", "path": "/status/conditions/-", "value": {"type": "Patched", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}}]`
	if _, err := works.Patch(t.Context(), "w", types.JSONPatchType, []byte(add), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	applied := parsed(t, workHead, "w", "{}")
	delete(applied.Object, "spec")
	applied.Object["status"] = map[string]any{"conditions": []any{condition("Applied")}}
	if _, err := works.ApplyStatus(t.Context(), "w", applied, metav1.ApplyOptions{FieldManager: "me"}); err != nil {
		t.Fatal(err)
	}
	expect := func(want ...string) {
		t.Helper()
		got, err := works.Get(t.Context(), "w", metav1.GetOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[string]bool{}
		conditions, _ := at(got, "status", "conditions").([]any)
		for _, c := range conditions {
			kinds[c.(map[string]any)["type"].(string)] = true
		}
		if have := slices.Sorted(maps.Keys(kinds)); !slices.Equal(have, want) {
			t.Errorf("conditions are %q, want %q", have, want)
		}
	}
	expect("Applied", "Patched", "Updated")
	applied.Object["status"] = map[string]any{}
	if _, err := works.ApplyStatus(t.Context(), "w", applied, metav1.ApplyOptions{FieldManager: "me"}); err != nil {
		t.Fatal(err)
	}
	expect("Patched", "Updated")
}
