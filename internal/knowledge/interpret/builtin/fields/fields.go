package fields

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// SpecNumber reads spec.<name>, where the API's default stands in for a missing or null value.
func SpecNumber(obj *unstructured.Unstructured, name string, standard int64) (int64, error) {
	value, found, err := unstructured.NestedFieldNoCopy(obj.Object, "spec", name)
	if err != nil {
		return 0, fmt.Errorf("reading spec.%s: %w", name, err)
	}
	if !found || value == nil {
		return standard, nil
	}
	number, ok := Int64(value)
	if !ok {
		return 0, fmt.Errorf("spec.%s is %v, not a number", name, value)
	}
	return number, nil
}

// Int64 accepts the number types of JSON decoders and of objects built in code.
func Int64(value any) (int64, bool) {
	switch number := value.(type) {
	case int64:
		return number, true
	case int32:
		return int64(number), true
	case int:
		return int64(number), true
	case float64:
		// The conversion of what int64 does not have is up to the processor.
		return int64(number), number == math.Trunc(number) && math.Abs(number) < 1<<63
	default:
		return 0, false
	}
}

// PodSpec reads the pod spec at the path; an object without one has an empty spec.
func PodSpec(obj *unstructured.Unstructured, path ...string) (*corev1.PodSpec, error) {
	raw, _, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
	if err != nil {
		return nil, fmt.Errorf("reading the pod spec: %w", err)
	}
	spec := &corev1.PodSpec{}
	fields, ok := raw.(map[string]any)
	if !ok {
		return spec, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, spec); err != nil {
		return nil, fmt.Errorf("reading the pod spec: %w", err)
	}
	return spec, nil
}

// Condition is what every kind of condition has in common.
type Condition struct {
	Status, Reason     string
	ObservedGeneration int64
}

// Stale is true if the condition is about an older spec; one without a generation is about the current one.
func (c Condition) Stale(generation int64) bool {
	return c.ObservedGeneration != 0 && c.ObservedGeneration < generation
}

// Conditions reads status.conditions by type.
func Conditions(obj *unstructured.Unstructured) map[string]Condition {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	list, _ := value.([]any)
	found := make(map[string]Condition, len(list))
	for _, entry := range list {
		fields, _ := entry.(map[string]any)
		name, _ := fields["type"].(string)
		if name == "" {
			continue
		}
		read := Condition{}
		read.Status, _ = fields["status"].(string)
		read.Reason, _ = fields["reason"].(string)
		read.ObservedGeneration, _ = Int64(fields["observedGeneration"])
		found[name] = read
	}
	return found
}

// StatusNumber reads a counter of the status; a missing one is zero.
func StatusNumber(obj *unstructured.Unstructured, name string) int64 {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", name)
	number, _ := Int64(value)
	return number
}

func StatusText(obj *unstructured.Unstructured, name string) string {
	value, _, _ := unstructured.NestedString(obj.Object, "status", name)
	return value
}

func StatusTime(obj *unstructured.Unstructured, name string) (time.Time, error) {
	return time.Parse(time.RFC3339, StatusText(obj, name))
}
