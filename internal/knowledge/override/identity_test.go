package override_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
)

const roleBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: team, namespace: shop, labels: {app: web}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: team}]
`

// Policies that were stored before admission had the rule come here, too.
func TestIdentityStays(t *testing.T) {
	imageAt := func(path, value string) policyv1alpha1.Overriders {
		return policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{
			Predicate: &policyv1alpha1.ImagePredicate{Path: path}, Component: policyv1alpha1.Repository, Operator: replace, Value: value,
		}}}
	}
	labels := func(operator policyv1alpha1.OverriderOperator, key, value string) policyv1alpha1.Overriders {
		return policyv1alpha1.Overriders{LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: operator, Value: map[string]string{key: value}}}}
	}
	tests := map[string]struct {
		object string
		edits  policyv1alpha1.Overriders
		want   []string
	}{
		"Kind":            {configMap, plaintext("/kind", replace, `"Secret"`), []string{"plaintext[0]", "path /kind", `cannot change kind, which is "ConfigMap"`}},
		"APIVersion":      {configMap, plaintext("/apiVersion", replace, `"v2"`), []string{"cannot change apiVersion"}},
		"Name":            {configMap, plaintext("/metadata/name", replace, `"other"`), []string{"cannot change metadata.name"}},
		"Namespace":       {configMap, plaintext("/metadata/namespace", replace, `"kube-system"`), []string{"cannot change metadata.namespace"}},
		"NamespaceGone":   {configMap, plaintext("/metadata/namespace", remove, ""), []string{"cannot change metadata.namespace"}},
		"NamespaceNull":   {configMap, plaintext("/metadata/namespace", replace, "null"), []string{"cannot change metadata.namespace"}},
		"NamespaceList":   {configMap, plaintext("/metadata/namespace", replace, "[]"), []string{"cannot change metadata.namespace"}},
		"WholeMetadata":   {configMap, plaintext("/metadata", replace, `{"name": "settings"}`), []string{"cannot change metadata.namespace"}},
		"ImageAtName":     {configMap, imageAt("/metadata/name", "other"), []string{"imageOverrider[0]", "path /metadata/name", "cannot change metadata.name"}},
		"ImageAtKind":     {strings.Replace(configMap, "kind: ConfigMap", "kind: configmap", 1), imageAt("/kind", "secret"), []string{"cannot change kind"}},
		"Mark":            {configMap, labels(add, "karmada.io/managed", "true"), []string{"labelsOverrider[0]", "cannot set metadata.labels[karmada.io/managed]"}},
		"MarkByPatch":     {configMap, plaintext("/metadata/annotations", add, `{"work.karmada.io/name": "other"}`), []string{"cannot set metadata.annotations[work.karmada.io/name]"}},
		"RoleOfNamespace": {roleBinding, plaintext("/roleRef/name", replace, `"cluster-admin"`), []string{"cannot change rules, aggregationRule, subjects, roleRef of a RoleBinding"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			policy := inNamespace("shop", "edits", tc.edits)
			_, err := override.Apply(t.Context(), object(t, tc.object), member("m1"), []policyv1alpha1.Override{policy})
			var typed *override.Error
			if !errors.As(err, &typed) {
				t.Fatalf("got %v, want an *override.Error", err)
			}
			for _, part := range append(tc.want, `"shop/edits"`) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not mention %q", err, part)
				}
			}
		})
	}
}

func TestOwnershipKeysSurviveEdits(t *testing.T) {
	template := object(t, configMap)
	claim := map[string]string{"propagationpolicy.karmada.io/permanent-id": "id"}
	template.SetLabels(map[string]string{"app": "shop", "propagationpolicy.karmada.io/permanent-id": "id"})
	for name, edits := range map[string]policyv1alpha1.Overriders{
		"AllReplaced": plaintext("/metadata/labels", replace, `{"tier": "eu"}`),
		"AllRemoved":  plaintext("/metadata/labels", remove, ""),
		"OneRemoved": {LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{
			{Operator: remove, Value: map[string]string{"app": "", "propagationpolicy.karmada.io/permanent-id": ""}},
			{Operator: replace, Value: map[string]string{"propagationpolicy.karmada.io/permanent-id": "other"}},
		}},
	} {
		result, err := override.Apply(t.Context(), template, member("m1"), []policyv1alpha1.Override{inNamespace("shop", "edits", edits)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := result.Object.GetLabels()
		delete(got, "tier")
		if diff := cmp.Diff(claim, got); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", name, diff)
		}
	}
}

func TestOnlyClusterPoliciesEditRights(t *testing.T) {
	edits := plaintext("/roleRef/name", replace, `"edit"`)
	result, err := override.Apply(t.Context(), object(t, roleBinding), member("m1"), []policyv1alpha1.Override{
		everywhere("rights", edits), inNamespace("shop", "labels", plaintext("/metadata/labels/tier", add, `"eu"`)),
	})
	// What a ClusterOverridePolicy changed is what those of the namespace leave as it is.
	if err != nil {
		t.Fatal(err)
	}
	ref := result.Object.Object["roleRef"].(map[string]any)
	if ref["name"] != "edit" || result.Object.GetLabels()["tier"] != "eu" {
		t.Errorf("got %v", result.Object.Object)
	}
}

const secretOfShop = `
apiVersion: v1
kind: Secret
metadata: {name: top, namespace: shop, annotations: {kubectl.kubernetes.io/last-applied-configuration: Y2FuYXJ5}}
type: Opaque
data: {password: Y2FuYXJ5, other: Y2FuYXJ5LTI=}
`

// TestNoAnswerHasTheValuesOfASecret: neither errors, which conditions and events repeat, nor what Explain returns.
func TestNoAnswerHasTheValuesOfASecret(t *testing.T) {
	field := func(steps ...policyv1alpha1.YAMLPatchOperation) policyv1alpha1.Overriders {
		return policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: "/data/password", YAML: steps}}}
	}
	for name, edits := range map[string]policyv1alpha1.Overriders{
		"Image": {ImageOverrider: []policyv1alpha1.ImageOverrider{{
			Predicate: &policyv1alpha1.ImagePredicate{Path: "/data/other"}, Component: policyv1alpha1.Tag, Operator: replace, Value: "x",
		}}},
		"JSON":    {FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: "/data/password", JSON: []policyv1alpha1.JSONPatchOperation{{SubPath: "/a", Operator: add}}}}},
		"YAML":    field(policyv1alpha1.YAMLPatchOperation{SubPath: "/a", Operator: replace}),
		"Absent":  plaintext("/data/none", replace, `"x"`),
		"Nothing": plaintext("/data/password/a", replace, `"x"`),
	} {
		_, err := override.Apply(t.Context(), object(t, secretOfShop), member("m1"), []policyv1alpha1.Override{inNamespace("shop", "edits", edits)})
		if err == nil || strings.Contains(err.Error(), "Y2Fu") || !strings.Contains(err.Error(), `"shop/edits"`) {
			t.Errorf("%s: got %v, want an error that names the policy and no value", name, err)
		}
	}
	for name, edits := range map[string]policyv1alpha1.Overriders{
		"Value":       plaintext("/data/password", replace, `"Y2FuYXJ5LTM="`),
		"All":         plaintext("/data", replace, `{"new": "Y2FuYXJ5LTQ="}`),
		"Text":        plaintext("/stringData", add, `{"new": "canary"}`),
		"Annotations": plaintext("/metadata/annotations", remove, ""),
	} {
		result, err := override.Explain(t.Context(), object(t, secretOfShop), member("m1"), []policyv1alpha1.Override{inNamespace("shop", "edits", edits)})
		if err != nil || len(result.Verdicts) != 1 || len(result.Verdicts[0].Edits) == 0 {
			t.Errorf("%s: %v, %v", name, result.Verdicts, err)
			continue
		}
		for _, edit := range result.Verdicts[0].Edits {
			if text := fmt.Sprint(edit.From, edit.To); strings.Contains(text, "Y2Fu") || strings.Contains(text, "canary") || !strings.Contains(text, "(hidden)") {
				t.Errorf("%s: the edit of %s shows %s", name, edit.Path, text)
			}
		}
	}
}
