package hubstore

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// fieldManager is the name under which templates are written.
const fieldManager = "flagship"

// PatchMetadata sends a merge patch, which must change nothing but metadata, and returns the whole object as it is afterwards. If the
// patch has a uid, a template that was replaced in between is not changed, and an error is returned.
func (s *Store) PatchMetadata(ctx context.Context, ref Ref, patch []byte) (*unstructured.Unstructured, error) {
	client, err := s.client(ref)
	if err != nil {
		return nil, err
	}
	s.contents.drop(ref) // an error does not mean that nothing was written
	obj, err := client.Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, fmt.Errorf("patching %s: %w", ref, err)
	}
	s.contents.keep(ref, obj)
	s.cacheWritten(ref, obj)
	return obj, nil
}

// cacheWritten has Meta return a write before its watch event comes, so that a reconcile in between does not write again.
func (s *Store) cacheWritten(ref Ref, obj *unstructured.Unstructured) {
	w := s.watchOf(ref.GroupVersionKind)
	if w == nil || w.gvk != ref.GroupVersionKind {
		return
	}
	slim, err := s.slim(w.gvk)(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(), Generation: obj.GetGeneration(),
		CreationTimestamp: obj.GetCreationTimestamp(), DeletionTimestamp: obj.GetDeletionTimestamp(),
		Labels: obj.GetLabels(), Annotations: obj.GetAnnotations(),
		OwnerReferences: obj.GetOwnerReferences(), Finalizers: obj.GetFinalizers(),
	}})
	if err != nil {
		return
	}
	// Events during the write need not be distinguished, so the write is recorded as a whole afterwards.
	w.writes.Begin(ref.objectKey())
	w.writes.Done(ref.objectKey(), slim.(*metav1.PartialObjectMetadata))
	if seen := w.seen(ref); seen != nil { // the watch may have been faster than the answer
		w.writes.Observe(seen)
	} else {
		w.writes.Forget(ref.objectKey())
	}
}

// UpdateStatus makes the status of a template what it is in after, by patching what differs from before. It returns whether there was
// anything to write. With the uid of before, the patch cannot change another object of that name. A resource version is part of it for
// definitions only: their list of conditions has another writer, the API server.
func (s *Store) UpdateStatus(ctx context.Context, before, after *unstructured.Unstructured) (bool, error) {
	ref := RefOf(before)
	patch, err := statusPatch(before, after)
	if err != nil {
		return false, fmt.Errorf("comparing status of %s: %w", ref, err)
	}
	if patch == nil {
		return false, nil
	}
	client, err := s.client(ref)
	if err != nil {
		return false, err
	}
	s.contents.drop(ref) // an error does not mean that nothing was written
	obj, err := client.Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if err != nil {
		return false, fmt.Errorf("patching status of %s: %w", ref, err)
	}
	s.contents.keep(ref, obj)
	return true, nil
}

// Scale sets the replicas of a template through its subresource scale, as an autoscaler does. It is a conflict if the template is not
// that of meta any more.
func (s *Store) Scale(ctx context.Context, ref Ref, meta *metav1.PartialObjectMetadata, replicas int32) error {
	client, err := s.client(ref)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": meta.UID, "resourceVersion": meta.ResourceVersion}, "spec": map[string]any{"replicas": replicas},
	})
	if err != nil {
		return fmt.Errorf("encoding the scale of %s: %w", ref, err)
	}
	s.contents.drop(ref)
	if _, err = client.Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "scale"); err != nil {
		return fmt.Errorf("scaling %s: %w", ref, err)
	}
	return nil
}

// statusPatch is the merge patch between two statuses, nil when they are equal.
func statusPatch(before, after *unstructured.Unstructured) ([]byte, error) {
	if equality.Semantic.DeepEqual(before.Object["status"], after.Object["status"]) {
		return nil, nil
	}
	from, err := json.Marshal(map[string]any{"status": before.Object["status"]})
	if err != nil {
		return nil, err
	}
	to, err := json.Marshal(map[string]any{"status": after.Object["status"]})
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.CreateMergePatch(from, to)
	if err != nil {
		return nil, err
	}
	if string(patch) == "{}" {
		return nil, nil
	}
	content := map[string]any{}
	if err := json.Unmarshal(patch, &content); err != nil {
		return nil, err
	}
	metadata := map[string]any{"uid": string(before.GetUID())}
	if before.GroupVersionKind().GroupKind() == definitionKind {
		metadata["resourceVersion"] = before.GetResourceVersion()
	}
	content["metadata"] = metadata
	return json.Marshal(content)
}
