package admission_test

import (
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/warning"
)

func TestSelectorsOfWhatIsNeverSentWarn(t *testing.T) {
	const (
		head    = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {namespace: shop, name: p}\nspec:\n  resourceSelectors: "
		cluster = "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {name: p}\nspec:\n  resourceSelectors: "
		reserve = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {namespace: reserved, name: p}\nspec:\n  resourceSelectors: "
		nothing = " selects nothing: it names what belongs to the control plane or to one cluster, or a namespace that stays here, and is never sent to members"
	)
	for name, tc := range map[string]struct {
		old, text string
		want      []string
	}{
		"a kind of the control plane":      {"", cluster + "[{apiVersion: v1, kind: ConfigMap}, {apiVersion: own.io/v1, kind: Own}]", []string{"spec.resourceSelectors[1]" + nothing}},
		"a namespace of the control plane": {"", cluster + "[{apiVersion: v1, kind: ConfigMap, namespace: reserved}]", []string{"spec.resourceSelectors[0]" + nothing}},
		"a namespace of Kubernetes": {"", cluster + "[{apiVersion: v1, kind: ConfigMap, namespace: kube-system}]",
			[]string{"spec.resourceSelectors[0] selects only objects with the annotation flagship.io/propagate=true: others in namespace kube-system stay on the control plane"}},
		"the policy's own namespace":          {"", reserve + "[{apiVersion: v1, kind: ConfigMap}]", []string{"spec.resourceSelectors[0]" + nothing}},
		"what may be sent":                    {"", head + "[{apiVersion: v1, kind: ConfigMap}]", nil},
		"a write that changes something else": {head + "[{apiVersion: own.io/v1, kind: Own}]", head + "[{apiVersion: own.io/v1, kind: Own}]", nil},
	} {
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
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
