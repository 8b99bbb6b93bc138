package interpret

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// WithStatus returns template with the status, or template itself if it has that status already. The result shares everything
// else with template.
func WithStatus(template *unstructured.Unstructured, status map[string]any) *unstructured.Unstructured {
	present, _ := template.Object["status"].(map[string]any)
	if len(present) == 0 && len(status) == 0 || equality.Semantic.DeepEqual(present, status) {
		return template
	}
	result := &unstructured.Unstructured{Object: maps.Clone(template.Object)}
	if metadata, ok := template.Object["metadata"].(map[string]any); ok {
		result.Object["metadata"] = maps.Clone(metadata)
	}
	delete(result.Object, "status")
	if len(status) > 0 {
		result.Object["status"] = status
	}
	return result
}

// SortDependencies sorts a list and removes repetitions, as [Shape] requires.
func SortDependencies(list []Dependency) []Dependency {
	slices.SortFunc(list, func(a, b Dependency) int {
		return cmp.Or(
			cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(selectorText(a), selectorText(b)),
		)
	})
	return slices.CompactFunc(list, func(a, b Dependency) bool { return equality.Semantic.DeepEqual(a, b) })
}

func selectorText(d Dependency) string {
	if d.LabelSelector == nil {
		return ""
	}
	text, err := json.Marshal(d.LabelSelector)
	if err != nil {
		return ""
	}
	return string(text)
}

// SameObject returns an error if result is another object than original.
func SameObject(original, result *unstructured.Unstructured) error {
	if result.GroupVersionKind() != original.GroupVersionKind() || result.GetName() != original.GetName() ||
		result.GetNamespace() != original.GetNamespace() {
		return errors.New("it is another object than the one that was given")
	}
	return nil
}
