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
	"k8s.io/client-go/kubernetes/scheme"
)

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
