package retain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLeft lists what controllers in members change by convention.
func TestLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		manifest      string
		fields, lists []string
	}{
		"ServiceAccount":         {`{apiVersion: v1, kind: ServiceAccount}`, nil, []string{"/secrets", "/imagePullSecrets"}},
		"RayClusterThatScales":   {`{apiVersion: ray.io/v1, kind: RayCluster, spec: {enableInTreeAutoscaling: true}}`, []string{"/spec/workerGroupSpecs/*/replicas", "/spec/workerGroupSpecs/*/scaleStrategy"}, nil},
		"RayCluster":             {`{apiVersion: ray.io/v1, kind: RayCluster, spec: {}}`, nil, nil},
		"ServiceAccountOfOthers": {`{apiVersion: example.io/v1, kind: ServiceAccount}`, nil, nil},
	} {
		fields, lists := Left(parse(t, tc.manifest))
		if diff := cmp.Diff([][]string{tc.fields, tc.lists}, [][]string{fields, lists}); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
