package template

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
	return obj, nil
}

// UpdateStatus makes the status of a template what it is in after, by patching
// what differs from before. It reports whether there was anything to write.
// The uid in before guards against writing to a successor of the same name;
// no resource version does, since status has no other writer on the hub.
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
	content["metadata"] = map[string]any{"uid": string(before.GetUID())}
	return json.Marshal(content)
}
