package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func TestNewWorkKeepsWhatIsThere(t *testing.T) {
	key := types.NamespacedName{Namespace: ExecutionNamespace("m1"), Name: "web"}
	work := NewWork(key, nil)
	work.SetPermanentID(func() string { return "first" })
	work.SetManifest([]byte(`{"a": 1, "b": 2}`))
	again := NewWork(key, work)
	again.SetPermanentID(func() string { return "second" })
	again.SetManifest([]byte(`{"b":2,"a":1}`))
	if diff := cmp.Diff(work, again); diff != "" {
		t.Errorf("made of itself (-want +got):\n%s", diff)
	}
	if again.SetManifest([]byte(`{"a":2}`)); string(work.Spec.Workload.Manifests[0].Raw) == string(again.Spec.Workload.Manifests[0].Raw) {
		t.Error("another manifest is not taken over, or the existing Work was changed")
	}
	if len(NewRecord(key, nil).Finalizers) > 0 {
		t.Error("a record has a finalizer, which nothing would remove")
	}
}

func TestStampListsAllKeys(t *testing.T) {
	work := NewWork(types.NamespacedName{Namespace: ExecutionNamespace("m1"), Name: "web"}, nil)
	work.SetPermanentID(func() string { return "id" })
	object := &metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}
	work.Stamp(object, &metav1.ObjectMeta{UID: "uid", Generation: 3}, map[string]string{"binding": "b"}, map[string]string{"note": "n"})
	wantLabels := map[string]string{"app": "web", "binding": "b", ManagedLabel: "true", WorkPermanentIDLabel: "id"}
	if diff := cmp.Diff(wantLabels, object.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	wantAnnotations := map[string]string{
		"note": "n", WorkNamespaceAnnotation: "karmada-es-m1", WorkNameAnnotation: "web",
		TemplateUIDAnnotation: "uid", TemplateGenerationAnnotation: "3",
		ManagedLabelsAnnotation: "app,binding,karmada.io/managed,work.karmada.io/permanent-id",
		ManagedAnnotationsAnnotation: "note,resourcetemplate.karmada.io/generation,resourcetemplate.karmada.io/managed-annotations," +
			"resourcetemplate.karmada.io/managed-labels,resourcetemplate.karmada.io/uid,work.karmada.io/name,work.karmada.io/namespace",
	}
	if diff := cmp.Diff(wantAnnotations, object.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestHasNoStatus(t *testing.T) {
	for raw, want := range map[string]bool{"": true, "{}": true, "null": true, `{"phase":"Running"}`: false} {
		if got := HasNoStatus(&runtime.RawExtension{Raw: []byte(raw)}); got != want {
			t.Errorf("%q: got %v", raw, got)
		}
	}
	if !HasNoStatus(nil) {
		t.Error("what is not reported counts as a status")
	}
}
