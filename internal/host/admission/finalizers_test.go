package admission_test

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/warning"
)

func TestFinalizersAreWarnedOfAndChecked(t *testing.T) {
	many := strings.Repeat("example.org/a,", 17)
	for name, tc := range map[string]struct {
		old, text, warning, refusal string
	}{
		"of an operator":             {text: "finalizers: [example.org/cleanup, other.org/x]", warning: "removes example.org/cleanup, other.org/x, and"},
		"of Kubernetes":              {text: "finalizers: [kubernetes.io/pvc-protection, foregroundDeletion, work.karmada.io/x]"},
		"an update":                  {old: "finalizers: []", text: "finalizers: [example.org/cleanup]"},
		"in members":                 {text: "annotations: {flagship.io/member-finalizers: 'example.org/cleanup, other.org/x'}"},
		"in members, without domain": {text: "annotations: {flagship.io/member-finalizers: orphan}", refusal: "must be a name with a domain"},
		"in members, no name":        {text: "annotations: {flagship.io/member-finalizers: 'example.org/a/b'}", refusal: "flagship.io/member-finalizers"},
		"in members, too many":       {text: "annotations: {flagship.io/member-finalizers: '" + many + "'}", refusal: "must have at most 16 items"},
		"in members, as before":      {old: "annotations: {flagship.io/member-finalizers: orphan}", text: "annotations: {flagship.io/member-finalizers: orphan}"},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(text string) string {
				return "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: shop, name: a, " + text + "}"
			}
			attributes := request(object(t, of(tc.text)), nil, "")
			if tc.old != "" {
				attributes = request(object(t, of(tc.text)), object(t, of(tc.old)), "")
			}
			var got recorder
			err := newPlugin().Validate(warning.WithWarningRecorder(t.Context(), &got), attributes, nil)
			if (err == nil) != (tc.refusal == "") || err != nil && !strings.Contains(err.Error(), tc.refusal) {
				t.Errorf("got %v, want %q", err, tc.refusal)
			}
			if text := strings.Join(got, "\n"); (text == "") != (tc.warning == "") || !strings.Contains(text, tc.warning) {
				t.Errorf("got %q, want %q", text, tc.warning)
			}
		})
	}
}
