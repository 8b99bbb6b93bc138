package v1alpha1

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxIgnoredFields bounds what is looked up in each object of a policy, and maxIgnoredDepth each of them.
const maxIgnoredFields, maxIgnoredDepth = 32, 32

// IgnoredFields are the pointers in the annotation DriftIgnoreAnnotation, one more at most than a policy may have.
func IgnoredFields(annotations map[string]string) []string {
	var fields []string
	for _, text := range strings.FieldsFunc(annotations[DriftIgnoreAnnotation], func(r rune) bool { return r == ',' || r == '\n' }) {
		if text = strings.TrimSpace(text); text != "" && len(fields) <= maxIgnoredFields {
			fields = append(fields, text)
		}
	}
	return fields
}

// validateIgnored refuses pointers to what the control plane needs itself.
func validateIgnored(annotations map[string]string) field.ErrorList {
	at := field.NewPath("metadata", "annotations").Key(DriftIgnoreAnnotation)
	var errs field.ErrorList
	fields := IgnoredFields(annotations)
	if len(fields) > maxIgnoredFields {
		return field.ErrorList{field.TooMany(at, len(fields), maxIgnoredFields)}
	}
	for _, pointer := range fields {
		if reason := whyNotIgnored(pointer); reason != "" {
			errs = append(errs, field.Invalid(at, pointer, reason))
		}
	}
	return errs
}

func whyNotIgnored(pointer string) string {
	if len(pointer) < 2 || pointer[0] != '/' || strings.HasSuffix(pointer, "/") {
		return "must be a path from the top of the object, such as /spec/replicas or /spec/template/spec/containers[name=\"web\"]/image"
	}
	if strings.Count(pointer, "/")+strings.Count(pointer, "[") > maxIgnoredDepth {
		return fmt.Sprintf("must not have more than %d parts", maxIgnoredDepth)
	}
	parts := strings.SplitN(pointer, "/", 4)
	switch parts[1] {
	case "apiVersion", "kind", "status":
		return "is no field that a member changes: name one below spec, data or another part of the object"
	case "metadata":
		if len(parts) < 4 || parts[2] != "labels" && parts[2] != "annotations" {
			return "of the metadata only a label or annotation can be left to members, such as /metadata/annotations/example.io~1key"
		}
	}
	return ""
}
