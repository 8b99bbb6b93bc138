package interpret

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// placeholder is how the text begins that stands for a value of a Secret. It is not base64, so that no API server takes it for a value.
const placeholder = "flagship-hidden-"

// valuesOf are the fields with the values of a Secret.
var valuesOf = []string{"data", "stringData"}

var errPartOfValue = errors.New("a value of a Secret is taken over as a whole or not at all")

// IsSecret returns whether an object is a Secret.
func IsSecret(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "Secret" && obj.GetAPIVersion() == "v1"
}

// bare returns an object as operations see it whose results more users may read than Secrets: a Secret without its values, and any other
// object itself. The annotation of kubectl has the values once more.
func bare(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if !IsSecret(obj) {
		return obj
	}
	copied := &unstructured.Unstructured{Object: maps.Clone(obj.Object)}
	for _, field := range valuesOf {
		delete(copied.Object, field)
	}
	if annotations := annotationsOf(copied); annotations != nil {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
	}
	return copied
}

// annotationsOf makes the annotations of a shallow copy its own, and returns them; nil if there are none.
func annotationsOf(copied *unstructured.Unstructured) map[string]any {
	metadata, ok := copied.Object["metadata"].(map[string]any)
	if !ok {
		return nil
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		return nil
	}
	metadata, annotations = maps.Clone(metadata), maps.Clone(annotations)
	metadata["annotations"], copied.Object["metadata"] = annotations, metadata
	return annotations
}

// sealed replaces the values of Secrets by placeholders for an operation whose result goes to the member, and puts them back. Equal values
// have equal placeholders, so that a script can compare and copy what it cannot read.
type sealed struct {
	placeholders map[string]string // by value
	values       map[string]string // by placeholder
}

// hide returns a Secret without its values, and any other object itself.
func (s *sealed) hide(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if !IsSecret(obj) {
		return obj
	}
	copied := &unstructured.Unstructured{Object: maps.Clone(obj.Object)}
	for _, field := range valuesOf {
		entries, ok := copied.Object[field].(map[string]any)
		if !ok {
			delete(copied.Object, field)
			continue
		}
		entries = maps.Clone(entries)
		for key, value := range entries {
			entries[key] = s.placeholderOf(value)
		}
		copied.Object[field] = entries
	}
	annotations := annotationsOf(copied)
	if value, ok := annotations[corev1.LastAppliedConfigAnnotation]; ok {
		annotations[corev1.LastAppliedConfigAnnotation] = s.placeholderOf(value)
	}
	return copied
}

// placeholderOf is that of a value; what is no text has none.
func (s *sealed) placeholderOf(value any) any {
	text, ok := value.(string)
	if !ok {
		return nil
	}
	if s.placeholders == nil {
		s.placeholders, s.values = map[string]string{}, map[string]string{}
	}
	if _, known := s.placeholders[text]; !known {
		name := fmt.Sprintf("%s%d", placeholder, len(s.values))
		s.placeholders[text], s.values[name] = name, text
	}
	return s.placeholders[text]
}

// open puts the values back where a Secret has values, and nowhere else.
func (s *sealed) open(obj *unstructured.Unstructured) error {
	if !IsSecret(obj) {
		return nil
	}
	for _, field := range valuesOf {
		entries, _ := obj.Object[field].(map[string]any)
		for key, value := range entries {
			text, _ := value.(string)
			original, known := s.values[text]
			switch {
			case known:
				entries[key] = original
			case strings.Contains(text, placeholder):
				return fmt.Errorf("%s.%s: %w", field, key, errPartOfValue)
			}
		}
	}
	annotations := obj.GetAnnotations()
	if original, known := s.values[annotations[corev1.LastAppliedConfigAnnotation]]; known {
		annotations[corev1.LastAppliedConfigAnnotation] = original
		obj.SetAnnotations(annotations)
	}
	return nil
}

// returning is the result of an operation on the hidden copy of an object: the object itself if the operation returned the copy.
func (s *sealed) returning(original, hidden, result *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if result == nil || result == hidden {
		return original, nil
	}
	return result, s.open(result)
}
