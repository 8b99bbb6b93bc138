package v1alpha1

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// GroupVersionKind is the kind of object that a manifest is; empty if it cannot be read.
func (m Manifest) GroupVersionKind() schema.GroupVersionKind {
	var head metav1.TypeMeta
	if json.Unmarshal(m.Raw, &head) != nil {
		return schema.GroupVersionKind{}
	}
	return head.GroupVersionKind()
}

// Carries returns whether a manifest of the Work is of one of the kinds.
func (w *Work) Carries(kinds func(schema.GroupVersionKind) bool) bool {
	return slices.ContainsFunc(w.Spec.Workload.Manifests, func(m Manifest) bool { return kinds(m.GroupVersionKind()) })
}

// SameRaw compares what is kept as JSON, such as manifests and statuses, by meaning: an API server may return the keys in
// another order than it was sent.
func SameRaw(a, b *runtime.RawExtension) bool {
	if a == nil || b == nil {
		return a == b
	}
	if bytes.Equal(a.Raw, b.Raw) {
		return true
	}
	var left, right any
	return utiljson.Unmarshal(a.Raw, &left) == nil && utiljson.Unmarshal(b.Raw, &right) == nil && reflect.DeepEqual(left, right)
}

// SameManifests compares manifests by meaning.
func SameManifests(a, b []Manifest) bool {
	return slices.EqualFunc(a, b, func(a, b Manifest) bool { return SameRaw(&a.RawExtension, &b.RawExtension) })
}
