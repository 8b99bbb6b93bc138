package admission_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/warning"
)

func TestAnnotationsNearTheLimitAreWarnedOf(t *testing.T) {
	of := func(bytes int) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: shop, name: a, annotations: {k: %s}}", strings.Repeat("x", bytes-1))
	}
	for name, tc := range map[string]struct {
		old, size int
		warns     bool
	}{
		"Small":          {size: 100},
		"Fits":           {size: 262144 - 1024},
		"NearTheLimit":   {size: 262144 - 1023, warns: true},
		"GrowsNearIt":    {old: 100, size: 262100, warns: true},
		"WasNearIt":      {old: 262100, size: 262101},
		"IsNearNoLonger": {old: 262100, size: 100},
	} {
		t.Run(name, func(t *testing.T) {
			attributes := request(object(t, of(tc.size)), nil, "")
			if tc.old > 0 {
				attributes = request(object(t, of(tc.size)), object(t, of(tc.old)), "")
			}
			var got recorder
			if err := newPlugin().Validate(warning.WithWarningRecorder(t.Context(), &got), attributes, nil); err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(got, "\n"); (text != "") != tc.warns || tc.warns && !strings.Contains(text, fmt.Sprintf("have %d bytes", tc.size)) {
				t.Errorf("got %q", text)
			}
		})
	}
}
