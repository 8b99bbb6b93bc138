package crds

import (
	"encoding/json"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// sampleOf is a value that a schema accepts, with required fields only. Rules that schemas cannot say are beyond it: what
// they ask for is in the table of specs.
func sampleOf(s *apiextensionsv1.JSONSchemaProps) any {
	switch {
	case s.Default != nil:
		return decoded(s.Default.Raw)
	case len(s.Enum) > 0:
		return decoded(s.Enum[0].Raw)
	case s.XIntOrString:
		return int64(1)
	}
	switch s.Type {
	case "object":
		return sampleObject(s)
	case "array":
		list := []any{}
		for range length(s.MinItems) {
			list = append(list, sampleOf(s.Items.Schema))
		}
		return list
	case "integer":
		if s.Minimum != nil {
			return int64(*s.Minimum)
		}
		return int64(1)
	case "number":
		return 1.5
	case "boolean":
		return true
	default:
		return sampleString(s)
	}
}

func sampleObject(s *apiextensionsv1.JSONSchemaProps) map[string]any {
	fields := map[string]any{}
	for _, name := range s.Required {
		property := s.Properties[name]
		fields[name] = sampleOf(&property)
	}
	return fields
}

func sampleString(s *apiextensionsv1.JSONSchemaProps) string {
	switch s.Format {
	case "date-time":
		return "2026-01-01T00:00:00Z"
	case "byte":
		return "YQ=="
	}
	text := "a"
	for int64(len(text)) < length(s.MinLength) {
		text += "a"
	}
	return text
}

func length(least *int64) int64 {
	if least == nil {
		return 0
	}
	return *least
}

func decoded(raw []byte) any {
	var value any
	_ = json.Unmarshal(raw, &value) // it is part of a definition that was read
	if number, ok := value.(float64); ok && number == float64(int64(number)) {
		return int64(number)
	}
	return value
}

// reportOf is a status that a member's controller might write: the first simple field there is, or a list.
func reportOf(s *apiextensionsv1.JSONSchemaProps) map[string]any {
	report := sampleObject(s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		if property.Type == "integer" || property.Type == "string" && property.Pattern == "" {
			report[name] = sampleOf(&property)
			return report
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if s.Properties[name].Type == "array" {
			report[name] = []any{}
			return report
		}
	}
	return report
}
