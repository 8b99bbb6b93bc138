package v1alpha1

import (
	"slices"
	"strings"
	"testing"
)

func TestIgnoredFields(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "/spec/replicas": "", " /spec/replicas,/data/a\n\n/spec/template/spec/containers[name=\"web\"]/image ": "",
		"/metadata/labels/app": "", "/metadata/annotations/*": "",
		"spec": "must be a path", "/": "must be a path", "/spec/": "must be a path", "/metadata/labels": "only a label or annotation", "/metadata/name": "only a label or annotation",
		"/kind": "is no field", "/status/phase": "is no field", strings.Repeat("/a", 40): "must not have more than 32 parts", strings.Repeat("/a,", 33): "Too many",
	} {
		errs := validateIgnored(map[string]string{DriftIgnoreAnnotation: text})
		if len(errs) > 0 != (want != "") || want != "" && !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%q: %v, want %q", text, errs, want)
		}
	}
	got := IgnoredFields(map[string]string{DriftIgnoreAnnotation: "/a, /b\n/c"})
	if !slices.Equal(got, []string{"/a", "/b", "/c"}) {
		t.Errorf("the fields are %q", got)
	}
}
