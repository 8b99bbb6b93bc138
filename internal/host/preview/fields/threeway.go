package fields

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

// maxEntries bounds the lists of objects that are compared. A strategic merge patch looks for each entry of one list in the other.
const maxEntries = 2_000

// longest returns the longest list of objects in a value, and how many there are.
func longest(value any, path *field.Path) (at *field.Path, n int) {
	take := func(child *field.Path, length int) {
		if length > n {
			at, n = child, length
		}
	}
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			take(longest(child, path.Child(key)))
		}
	case []any:
		if len(value) == 0 {
			break
		}
		if _, objects := value[0].(map[string]any); objects {
			take(path, len(value))
		}
		for i, child := range value {
			take(longest(child, path.Index(i)))
		}
	}
	return at, n
}

// ThreeWay is the patch of "kubectl apply": it removes what the annotation of the last one has and the manifest does not.
func ThreeWay(present, manifest *unstructured.Unstructured) ([]byte, types.PatchType, error) {
	current, err := json.Marshal(present.Object)
	if err != nil {
		return nil, "", fmt.Errorf("encoding the object: %w", err)
	}
	modified, err := annotated(manifest)
	if err != nil {
		return nil, "", err
	}
	original := []byte(present.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	var patch []byte
	patchType := types.MergePatchType
	if typed, unknown := scheme.Scheme.New(manifest.GroupVersionKind()); unknown == nil {
		for _, object := range []*unstructured.Unstructured{present, manifest} {
			if path, n := longest(object.Object, nil); n > maxEntries {
				return nil, "", apierrors.NewBadRequest(fmt.Sprintf("%s %s has %d entries in %s: a preview compares lists of up to %d",
					manifest.GetKind(), manifest.GetName(), n, path, maxEntries))
			}
		}
		patchType = types.StrategicMergePatchType
		var fields strategicpatch.PatchMetaFromStruct
		if fields, err = strategicpatch.NewPatchMetaFromStruct(typed); err == nil {
			patch, err = strategicpatch.CreateThreeWayMergePatch(original, modified, current, fields, true)
		}
	} else {
		if len(original) == 0 {
			original = []byte("{}")
		}
		patch, err = jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current)
	}
	if err != nil {
		return nil, "", apierrors.NewBadRequest(fmt.Sprintf("%s %s cannot be compared with the manifest: %v", manifest.GetKind(), manifest.GetName(), err))
	}
	return patch, patchType, nil
}

// annotated encodes a manifest with the annotation that "kubectl apply" adds. That has annotations even if the manifest has none: without it the
// patch would remove those of all others.
func annotated(manifest *unstructured.Unstructured) ([]byte, error) {
	manifest = manifest.DeepCopy()
	annotations := manifest.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	manifest.SetAnnotations(annotations)
	applied, err := json.Marshal(manifest.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	annotations[corev1.LastAppliedConfigAnnotation] = string(applied)
	manifest.SetAnnotations(annotations)
	modified, err := json.Marshal(manifest.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	return modified, nil
}
