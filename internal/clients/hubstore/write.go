package hubstore

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// fieldManager is the name under which templates are written.
const fieldManager = "flagship"

// PatchMetadata sends a merge patch, which must touch nothing but metadata, and
// returns the whole object as it is afterwards. With a uid in the patch, a
// template that was replaced meanwhile is left alone and an error returned.
func (s *Store) PatchMetadata(ctx context.Context, ref Ref, patch []byte) (*unstructured.Unstructured, error) {
	client, err := s.client(ref)
	if err != nil {
		return nil, err
	}
	obj, err := client.Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, fmt.Errorf("patching %s: %w", ref, err)
	}
	s.remember(ref, obj)
	return obj, nil
}

// remember has Meta show a write before its watch event comes, so that whoever
// looks again in between does not write again.
func (s *Store) remember(ref Ref, obj *unstructured.Unstructured) {
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
	s.written.put(ref, slim.(*metav1.PartialObjectMetadata))
	// The watch may have been faster than the answer to the write.
	s.written.forget(ref, w.seen(ref))
}

// written holds the metadata of objects whose last write has not come back
// through their watch yet.
type written struct {
	mu    sync.Mutex
	metas map[Ref]*metav1.PartialObjectMetadata
}

func (w *written) put(ref Ref, meta *metav1.PartialObjectMetadata) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.metas[ref] = meta
}

// forget drops what has been seen since; nil means that the object is gone.
func (w *written) forget(ref Ref, seen *metav1.PartialObjectMetadata) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if own, ok := w.metas[ref]; ok && (seen == nil || !newer(own, seen)) {
		delete(w.metas, ref)
	}
}

func (w *written) newest(ref Ref, seen *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	w.mu.Lock()
	defer w.mu.Unlock()
	if own, ok := w.metas[ref]; ok && own.UID == seen.UID && newer(own, seen) {
		return own
	}
	return seen
}

func newer(a, b *metav1.PartialObjectMetadata) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}

// UpdateStatus makes the status of a template what it is in after, by patching
// what differs from before. It reports whether there was anything to write.
// The uid in before guards against writing to a successor of the same name;
// no resource version does, since status has no other writer on the hub, but
// for definitions: the hub's own API server writes to the same list of
// conditions, so a definition that has changed is a conflict.
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
	_, err = client.Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if err != nil {
		return false, fmt.Errorf("patching status of %s: %w", ref, err)
	}
	return true, nil
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
