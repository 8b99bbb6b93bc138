package admission_test

import (
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/warning"
)

const policyHead = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {namespace: a, name: p}\nspec:\n  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]\n"

func TestInactiveFieldsWarn(t *testing.T) {
	const (
		plain       = policyHead
		failover    = policyHead + "  failover: {application: {decisionConditions: {tolerationSeconds: 30}}}\n"
		other       = policyHead + "  failover: {application: {decisionConditions: {tolerationSeconds: 60}}}\n"
		tolerations = policyHead + "  placement: {clusterTolerations: [{key: a, operator: Exists}, {key: b, operator: Exists, tolerationSeconds: 5}]}\n"
	)
	const (
		ofFailover    = "spec.failover.application is stored, but nothing acts on it yet: what runs in a cluster that fails stays there"
		ofTolerations = "spec.placement.clusterTolerations[1].tolerationSeconds is stored, but nothing acts on it yet: a taint evicts nothing, so that the toleration never ends"
	)
	cases := map[string]struct {
		reason, old, text string
		want              []string
	}{
		"Created":   {"a warning says that the field has no effect", "", failover, []string{ofFailover}},
		"Item":      {"the item of a list is named", "", tolerations, []string{ofTolerations}},
		"Set":       {"so he is when the field comes later", plain, failover, []string{ofFailover}},
		"Changed":   {"or with another value", failover, other, []string{ofFailover}},
		"Unchanged": {"a write of something else is not about the field", failover, failover, nil},
		"Removed":   {"nor is its removal", failover, plain, nil},
		"Absent":    {"defaults are not what the user wrote", "", plain, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got recorder
			ctx := warning.WithWarningRecorder(t.Context(), &got)
			attributes := request(object(t, tc.text), nil, "")
			if tc.old != "" {
				attributes = request(object(t, tc.text), object(t, tc.old), "")
			}
			if err := newPlugin().Admit(ctx, attributes, nil); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
