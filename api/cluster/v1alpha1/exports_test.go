package v1alpha1

import "testing"

func TestMayExport(t *testing.T) {
	for reason, c := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"without the annotation all": {nil, true},
		"an empty list is none":      {map[string]string{ExportersAnnotation: ""}, false},
		"it is named":                {map[string]string{ExportersAnnotation: "us, eu"}, true},
		"another is named":           {map[string]string{ExportersAnnotation: "eu-west"}, false},
	} {
		if got := MayExport(c.annotations, "eu"); got != c.want {
			t.Errorf("%s: %t", reason, got)
		}
	}
}

func TestExportLimit(t *testing.T) {
	for text, c := range map[string]struct {
		want  int
		wrong bool
	}{"": {0, true}, "0": {0, false}, "7": {7, false}, "-1": {0, true}, "many": {0, true}, "2000": {2000, false}, "2001": {2001, true}, "99999999999": {0, true}} {
		annotations := map[string]string{ExportLimitAnnotation: text}
		if got := ExportLimit(annotations, 9); got != c.want {
			t.Errorf("%q is read as %d, want %d", text, got, c.want)
		}
		if errs := ValidateExports(annotations); (len(errs) > 0) != c.wrong {
			t.Errorf("%q: %v", text, errs)
		}
	}
	if got := ExportLimit(nil, 9); got != 9 {
		t.Errorf("without the annotation it is %d", got)
	}
	if errs := ValidateExports(map[string]string{ExportersAnnotation: "eu, *"}); len(errs) != 1 {
		t.Errorf("a list with a name that no cluster can have: %v", errs)
	}
}
