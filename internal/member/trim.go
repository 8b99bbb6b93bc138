package member

import (
	"encoding/json"
	"hash/maphash"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// trim removes, in place, the field ownership nobody asks a cached object about: all but our own entry, and the ones
// that came through the scale subresource.
func trim(obj *unstructured.Unstructured) {
	entries, ok, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields")
	if !ok {
		return
	}
	kept := make([]any, 0, 2)
	for _, e := range entries {
		entry, ok := e.(map[string]any)
		if ok && (isOurs(entry) || entry["subresource"] == "scale") {
			kept = append(kept, entry)
		}
	}
	metadata := obj.Object["metadata"].(map[string]any)
	if len(kept) == 0 {
		delete(metadata, "managedFields")
		return
	}
	metadata["managedFields"] = kept
}

func isOurs(entry map[string]any) bool {
	subresource, _ := entry["subresource"].(string)
	return entry["manager"] == FieldManager && entry["operation"] == string(metav1.ManagedFieldsOperationApply) && subresource == ""
}

// OurFields returns the fields that we own in an object, as fieldsV1; nil if we never applied it.
func OurFields(obj *unstructured.Unstructured) map[string]any {
	metadata, _ := obj.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	for _, e := range entries {
		if entry, ok := e.(map[string]any); ok && isOurs(entry) {
			fields, _ := entry["fieldsV1"].(map[string]any)
			return fields
		}
	}
	return nil
}

// ownership is a fingerprint of the fields that we own: it differs when somebody took one away.
func ownership(seed maphash.Seed, obj *unstructured.Unstructured) uint64 {
	fields := OurFields(obj)
	if fields == nil {
		return 0
	}
	raw, err := json.Marshal(fields) // keys come out sorted
	if err != nil {
		return 0 // cannot happen: it was JSON a moment ago
	}
	return maphash.Bytes(seed, raw)
}

// workOf returns the Work an object says it belongs to; empty if it says none.
func workOf(obj *unstructured.Unstructured) types.NamespacedName {
	annotations := obj.GetAnnotations()
	return types.NamespacedName{
		Namespace: annotations[workv1alpha1.WorkNamespaceAnnotation],
		Name:      annotations[workv1alpha1.WorkNameAnnotation],
	}
}

// OwnedThroughScale tells whether somebody set an object's replicas through its scale subresource, as autoscalers do.
func OwnedThroughScale(obj *unstructured.Unstructured) bool {
	metadata, _ := obj.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	for _, e := range entries {
		entry, ok := e.(map[string]any)
		if !ok || entry["subresource"] != "scale" {
			continue
		}
		if _, owns, _ := unstructured.NestedFieldNoCopy(entry, "fieldsV1", "f:spec", "f:replicas"); owns {
			return true
		}
	}
	return false
}
