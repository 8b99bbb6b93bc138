package storage

import (
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// pod is a version of one Pod that shares no memory with any other.
func pod(version, phase string) *corev1.Pod {
	now := metav1.NewTime(time.Unix(1_800_000_000, 0))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: string([]byte("shop")), Name: string([]byte("web")), ResourceVersion: version, CreationTimestamp: now,
			Labels:        map[string]string{"app": string([]byte("web"))},
			Annotations:   map[string]string{"same": string([]byte("same")), "version": version},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: string([]byte("nginx")), Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPhase(phase), StartTime: &now,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Message: string([]byte("the same")), Reason: phase}}},
	}
}

func TestVersionsShareWhatTheyHaveInCommon(t *testing.T) {
	seen := versions{}
	first, second := pod("1", "Pending"), pod("2", "Running")
	seen.add(watch.Event{Type: watch.Added, Object: first})
	seen.add(watch.Event{Type: watch.Modified, Object: second})
	if diff := cmp.Diff(pod("1", "Pending"), first); diff != "" {
		t.Errorf("the earlier version is not what it was: %s", diff)
	}
	if diff := cmp.Diff(pod("2", "Running"), second); diff != "" {
		t.Errorf("the later version is not what it was: %s", diff)
	}
	if &first.Spec.Containers[0] != &second.Spec.Containers[0] || &first.ManagedFields[0] != &second.ManagedFields[0] {
		t.Error("they have no slice in common")
	}
	if first.Status.StartTime != second.Status.StartTime {
		t.Error("they have no pointer in common")
	}
	first.Labels["changed"] = "in one"
	if second.Labels["changed"] == "" {
		t.Error("they have no map in common")
	}
	for what, strings := range map[string][2]string{
		"name":       {first.Name, second.Name},
		"annotation": {first.Annotations["same"], second.Annotations["same"]},
		"message":    {first.Status.Conditions[0].Message, second.Status.Conditions[0].Message},
	} {
		if unsafe.StringData(strings[0]) != unsafe.StringData(strings[1]) {
			t.Errorf("they do not have their %s in common", what)
		}
	}
}

func TestVersionsOfObjectsWithoutAType(t *testing.T) {
	make := func(version string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "web", "resourceVersion": version, "labels": map[string]any{"app": "web"}},
			"spec":     map[string]any{"list": []any{int64(1), map[string]any{"deep": true}}},
			"changes":  map[string]any{"kept": map[string]any{"deep": true}, "version": version},
		}}
	}
	seen := versions{}
	first, second := make("1"), make("2")
	seen.add(watch.Event{Type: watch.Added, Object: first})
	seen.add(watch.Event{Type: watch.Modified, Object: second})
	if diff := cmp.Diff(make("2"), second); diff != "" {
		t.Errorf("the later version is not what it was: %s", diff)
	}
	for _, path := range [][]string{{"spec"}, {"metadata", "labels"}, {"changes", "kept"}} {
		shared, _, _ := unstructured.NestedFieldNoCopy(first.Object, path...)
		shared.(map[string]any)["changed"] = "in one"
		if _, also, _ := unstructured.NestedFieldNoCopy(second.Object, append(path, "changed")...); !also {
			t.Errorf("they do not have %v in common", path)
		}
	}
}

func TestObjectsThatAreGoneAreDropped(t *testing.T) {
	seen := versions{}
	seen.add(watch.Event{Type: watch.Added, Object: pod("1", "Running")})
	seen.add(watch.Event{Type: watch.Bookmark, Object: pod("2", "")})
	gone := pod("3", "Running")
	seen.add(watch.Event{Type: watch.Deleted, Object: gone})
	seen.add(watch.Event{Type: watch.Error, Object: &metav1.Status{}})
	if diff := cmp.Diff(pod("3", "Running"), gone); diff != "" || len(seen) != 0 {
		t.Errorf("%d are kept; %s", len(seen), diff)
	}
}
