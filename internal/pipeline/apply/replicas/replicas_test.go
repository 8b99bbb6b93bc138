package replicas_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/replicas"
)

func TestYield(t *testing.T) {
	const (
		plain    = `{metadata: {name: a}, spec: {replicas: 2}}`
		retained = `{metadata: {name: a, labels: {resourcetemplate.karmada.io/retain-replicas: "true"}}, spec: {replicas: 2}}`
		ownedBy  = `{manager: flagship, operation: Apply, fieldsV1: {"f:spec": {"f:replicas": {}}}}`
		scaled   = `{manager: hpa, operation: Update, subresource: scale, fieldsV1: {"f:spec": {"f:replicas": {}}}}`
	)
	tests := map[string]struct {
		reason        string
		desired, live string
		want          any // replicas that are applied; nil: none
	}{
		"Ours":   {"it has no other manager", plain, `{spec: {replicas: 9}, metadata: {managedFields: [` + ownedBy + `]}}`, int64(2)},
		"Scaled": {"they were set through the scale subresource", plain, `{spec: {replicas: 9}, metadata: {managedFields: [` + scaled + `]}}`, nil},
		"ScaledToTheSame": {"who scaled to what we apply decided about nothing", plain,
			`{spec: {replicas: 2}, metadata: {managedFields: [` + ownedBy + `, ` + scaled + `]}}`, int64(2)},
		"TakenBack": {"the template does not leave them to the member any more", plain,
			`{spec: {replicas: 9}, metadata: {labels: {resourcetemplate.karmada.io/retain-replicas: "true"}, managedFields: [` + scaled + `]}}`, int64(2)},
		"RetainedTheirs":   {"the user leaves them to the member", retained, `{spec: {replicas: 9}, metadata: {managedFields: [` + scaled + `]}}`, nil},
		"RetainedStillOur": {"but to stop applying what only we own would remove it", retained, `{spec: {replicas: 9}, metadata: {managedFields: [` + ownedBy + `]}}`, int64(9)},
		"RetainedUnowned":  {"or they have no owner", retained, `{spec: {replicas: 9}, metadata: {}}`, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			desired := object(t, tc.desired)
			got, _, _ := unstructured.NestedFieldNoCopy(replicas.Yield(ownership.ControlPlane{}, desired, object(t, tc.live)).Object, "spec", "replicas")
			if got != tc.want {
				t.Errorf("%s: got %v, want %v", tc.reason, got, tc.want)
			}
			if kept, _, _ := unstructured.NestedInt64(desired.Object, "spec", "replicas"); kept != 2 {
				t.Errorf("%s: the desired object was changed", tc.reason)
			}
		})
	}
}

// object has spec.replicas as an integer, as reading JSON from an API server does and YAML does not.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	spec := obj.Object["spec"].(map[string]any)
	spec["replicas"] = int64(spec["replicas"].(float64))
	return obj
}
