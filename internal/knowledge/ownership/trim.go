package ownership

import (
	"encoding/json"
	"hash/maphash"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// Trim removes, in place, the field ownership that no code reads from a cached object: all but our own entry, the ones that came
// through the scale subresource, and that of another control plane if nothing else names it.
func (c ControlPlane) Trim(obj *unstructured.Unstructured) {
	entries, ok, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields")
	if !ok {
		return
	}
	_, identified := obj.GetAnnotations()[workv1alpha1.ControlPlaneAnnotation]
	kept := make([]any, 0, 2)
	for _, e := range entries {
		entry, ok := e.(map[string]any)
		ours := ok && isApplied(entry) && (entry["manager"] == c.Manager() || entry["manager"] == FieldManager)
		fields, _ := entry["fieldsV1"].(map[string]any)
		others := ok && !identified && isApplied(entry) && haveManagedLabel(fields)
		if ours || others || ok && entry["subresource"] == "scale" {
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

// ownership is a fingerprint of the fields that we own: it differs when others took one away.
func Ownership(seed maphash.Seed, fields map[string]any) uint64 {
	if fields == nil {
		return 0
	}
	raw, err := json.Marshal(fields) // keys come out sorted
	if err != nil {
		return 0 // cannot happen: it was JSON a moment ago
	}
	return maphash.Bytes(seed, raw)
}

// values is a fingerprint of the values at the fields that we own, 0 if we own none. A list counts as a whole, so that its
// items need not be distinguished: the fingerprint differs also for a field of another in it, which costs a comparison.
func Values(seed maphash.Seed, fields map[string]any, value any) uint64 {
	if fields == nil {
		return 0
	}
	object, isMap := value.(map[string]any)
	var sum uint64
	inner := false
	for key, child := range fields {
		name, isField := strings.CutPrefix(key, "f:")
		if !isField || !isMap {
			continue
		}
		inner = true
		if owned, ok := child.(map[string]any); ok {
			// A sum, since the order of keys is not certain.
			sum += maphash.Comparable(seed, named{name, Values(seed, owned, object[name])})
		}
	}
	if inner {
		return sum
	}
	raw, err := json.Marshal(value) // keys come out sorted
	if err != nil {
		return 0 // cannot happen: it was JSON a moment ago
	}
	return maphash.Bytes(seed, raw)
}

type named struct {
	name  string
	value uint64
}

// OwnedThroughScale returns whether others set an object's replicas through its scale subresource, as autoscalers do.
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
