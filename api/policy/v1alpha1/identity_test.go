package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

func TestOverridesKeepIdentity(t *testing.T) {
	plaintext := func(path, value string) policyv1alpha1.Overriders {
		return policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{
			Path: path, Operator: policyv1alpha1.OverriderOpAdd, Value: apiextensionsv1.JSON{Raw: []byte(value)},
		}}}
	}
	image := func(path string) policyv1alpha1.Overriders {
		return policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{
			Operator: policyv1alpha1.OverriderOpRemove, Predicate: &policyv1alpha1.ImagePredicate{Path: path},
		}}}
	}
	document := func(path string) policyv1alpha1.Overriders {
		return policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: path}}}
	}
	entries := func(operator policyv1alpha1.OverriderOperator, key string) []policyv1alpha1.LabelAnnotationOverrider {
		return []policyv1alpha1.LabelAnnotationOverrider{{Operator: operator, Value: map[string]string{"app": "a", key: "b"}}}
	}
	tests := map[string]struct {
		overriders policyv1alpha1.Overriders
		want       []string
	}{
		"Kind":              {plaintext("/kind", `"ClusterRoleBinding"`), []string{"plaintext[0].path"}},
		"APIVersion":        {plaintext("/apiVersion", `"v1"`), []string{"plaintext[0].path"}},
		"Name":              {plaintext("/metadata/name", `"other"`), []string{"plaintext[0].path"}},
		"Namespace":         {plaintext("/metadata/namespace", `"kube-system"`), []string{"plaintext[0].path"}},
		"Metadata":          {plaintext("/metadata", `{}`), []string{"plaintext[0].path"}},
		"Mark":              {plaintext("/metadata/labels/karmada.io~1managed", `"true"`), []string{"plaintext[0].path"}},
		"AllAnnotations":    {plaintext("/metadata/annotations", `{"a": "b", "work.karmada.io/name": "w"}`), []string{"plaintext[0].value[work.karmada.io/name]"}},
		"ImageAtName":       {image("/metadata/name"), []string{"imageOverrider[0].predicate.path"}},
		"ImageAtMark":       {image("/metadata/annotations/flagship.io~1adopted"), []string{"imageOverrider[0].predicate.path"}},
		"DocumentAtKind":    {document("/kind"), []string{"fieldOverrider[0].fieldPath"}},
		"MarkAsLabel":       {policyv1alpha1.Overriders{LabelsOverrider: entries("add", "karmada.io/managed")}, []string{"labelsOverrider[0].value[karmada.io/managed]"}},
		"MarkTakenAway":     {policyv1alpha1.Overriders{LabelsOverrider: entries("remove", "work.karmada.io/permanent-id")}, []string{"labelsOverrider[0].value[work.karmada.io/permanent-id]"}},
		"ConflictOverwrite": {policyv1alpha1.Overriders{AnnotationsOverrider: entries("add", "work.karmada.io/conflict-resolution")}, []string{"annotationsOverrider[0].value[work.karmada.io/conflict-resolution]"}},

		"AllLabels":      {plaintext("/metadata/labels", `{"a": "b"}`), nil},
		"NameInside":     {plaintext("/spec/template/metadata/name", `"a"`), nil},
		"KindInside":     {plaintext("/spec/scaleTargetRef/kind", `"Deployment"`), nil},
		"KeyOfUsers":     {plaintext("/metadata/labels/resourcetemplate.karmada.io~1retain-replicas", `"true"`), nil},
		"OrdinaryImage":  {image("/spec/image"), nil},
		"OrdinaryLabels": {policyv1alpha1.Overriders{LabelsOverrider: entries("add", "tier")}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			policy := &policyv1alpha1.ClusterOverridePolicy{Spec: policyv1alpha1.OverrideSpec{
				OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: test.overriders}},
			}}
			var want []string
			for _, path := range test.want {
				want = append(want, "spec.overrideRules[0].overriders."+path)
			}
			if diff := cmp.Diff(want, fieldsOf(policyv1alpha1.ValidateOverride(policy))); diff != "" {
				t.Errorf("fields found wrong differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPreservedStateIsNoMark(t *testing.T) {
	policy := &policyv1alpha1.PropagationPolicy{Spec: policyv1alpha1.PropagationSpec{Failover: &policyv1alpha1.FailoverBehavior{
		Application: &policyv1alpha1.ApplicationFailoverBehavior{StatePreservation: &policyv1alpha1.StatePreservation{
			Rules: []policyv1alpha1.StatePreservationRule{{AliasLabelName: "work.karmada.io/permanent-id", JSONPath: "{ .a }"}}}},
	}}}
	want := []string{"spec.failover.application.statePreservation.rules[0].aliasLabelName"}
	if diff := cmp.Diff(want, fieldsOf(policyv1alpha1.ValidatePropagation(policy))); diff != "" {
		t.Errorf("fields found wrong differ (-want +got):\n%s", diff)
	}
}
