package fields

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
)

// hiddenValue takes the place of the values of Secrets.
const hiddenValue = `"(hidden)"`

// Edits lists the fields that differ between two states of an object, without status and what the API server writes itself. Values of a
// Secret are left out.
func Edits(from, to *unstructured.Unstructured) []fleetv1alpha1.FieldEdit {
	secret := from.GetKind() == "Secret" || to.GetKind() == "Secret"
	var edits []fleetv1alpha1.FieldEdit
	for _, e := range override.Difference("", written(from), written(to)) {
		edit := fleetv1alpha1.FieldEdit{Path: e.Path, From: text(e.From), To: text(e.To)}
		if secret && (strings.HasPrefix(e.Path, "/data") || strings.HasPrefix(e.Path, "/stringData")) {
			edit.From, edit.To = hide(edit.From), hide(edit.To)
		}
		edits = append(edits, edit)
	}
	return edits
}

func hide(value string) string {
	if value == "" {
		return ""
	}
	return hiddenValue
}

// written is the content of an object that users and controllers of the control plane write.
func written(obj *unstructured.Unstructured) map[string]any {
	obj = obj.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	// It is the whole object once more, the values of a Secret too.
	unstructured.RemoveNestedField(obj.Object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
	if annotations, found, err := unstructured.NestedMap(obj.Object, "metadata", "annotations"); found && err == nil && len(annotations) == 0 {
		unstructured.RemoveNestedField(obj.Object, "metadata", "annotations")
	}
	delete(obj.Object, "status")
	return obj.Object
}

// text is a value as JSON, "" for none.
func text(value any) string {
	if value == nil {
		return ""
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return "(unreadable)"
	}
	return string(raw)
}
