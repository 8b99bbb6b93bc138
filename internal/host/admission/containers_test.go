package admission_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/warning"
)

func TestOverridersThatFindNoContainersWarn(t *testing.T) {
	const (
		image     = "imageOverrider: [{component: Tag, operator: replace, value: v2}]"
		at        = "imageOverrider: [{predicate: {path: /spec/image}, component: Tag, operator: replace, value: v2}]"
		args      = "argsOverrider: [{containerName: a, operator: add, value: [-q]}]"
		plaintext = "plaintext: [{path: /spec/image, operator: replace, value: v2}]"
		rollout   = "{apiVersion: argoproj.io/v1alpha1, kind: Rollout}"
		workloads = "{apiVersion: apps/v1, kind: Deployment}, {apiVersion: batch/v1, kind: CronJob}, {apiVersion: batch/v1, kind: Job}"
	)
	for name, tc := range map[string]struct {
		selectors, overriders string
		want                  []string
	}{
		"kinds with containers":  {workloads, image, nil},
		"another kind":           {workloads + ", " + rollout, image, []string{"spec.resourceSelectors[3] selects the kind Rollout, of which imageOverrider[0] changes nothing"}},
		"a path":                 {rollout, at, nil},
		"a path and an image":    {rollout, "imageOverrider: [{predicate: {path: /a}, component: Tag, operator: remove}, {component: Tag, operator: remove}]", []string{"spec.resourceSelectors[0] selects the kind Rollout, of which imageOverrider[1] changes nothing"}},
		"args":                   {rollout, args, []string{"spec.resourceSelectors[0] selects the kind Rollout, of which argsOverrider changes nothing"}},
		"text":                   {rollout, plaintext, nil},
		"everything is selected": {"", image, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, spec := range []string{
				fmt.Sprintf("{resourceSelectors: [%s], overrideRules: [{overriders: {%s}}]}", tc.selectors, tc.overriders),
				fmt.Sprintf("{resourceSelectors: [%s], overriders: {%s}}", tc.selectors, tc.overriders),
			} {
				for _, kind := range []string{"kind: OverridePolicy, metadata: {namespace: shop, name: p}", "kind: ClusterOverridePolicy, metadata: {name: p}"} {
					policy := object(t, "{apiVersion: policy.karmada.io/v1alpha1, "+kind+", spec: "+spec+"}")
					var got recorder
					ctx := warning.WithWarningRecorder(t.Context(), &got)
					if err := newPlugin().Admit(ctx, request(policy, nil, ""), nil); err != nil {
						t.Fatal(err)
					}
					if err := newPlugin().Admit(ctx, request(policy, policy.DeepCopy(), ""), nil); err != nil { // nothing changes: no warning
						t.Fatal(err)
					}
					if len(got) != len(tc.want) {
						t.Fatalf("the warnings are %q, want %q", got, tc.want)
					}
					for i := range tc.want {
						if !strings.HasPrefix(got[i], tc.want[i]) {
							t.Errorf("the warning is %q, want %q", got[i], tc.want[i])
						}
					}
				}
			}
		})
	}
}
