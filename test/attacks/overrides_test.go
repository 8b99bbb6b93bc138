package attacks_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

func overridePolicy(namespace, name string, o policyv1alpha1.Overriders) *policyv1alpha1.OverridePolicy {
	return &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: o}}},
	}
}

func patches(steps ...policyv1alpha1.PlaintextOverrider) policyv1alpha1.Overriders {
	return policyv1alpha1.Overriders{Plaintext: steps}
}

func step(operator policyv1alpha1.OverriderOperator, path, value string) policyv1alpha1.PlaintextOverrider {
	return policyv1alpha1.PlaintextOverrider{Path: path, Operator: operator, Value: apiextensionsv1.JSON{Raw: []byte(value)}}
}

// refusedAt reports that a write was refused as invalid, with a cause at the field.
func refusedAt(err error, field string) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil {
		return fmt.Errorf("got %v, want a refusal that names %s", err, field)
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Field == field {
			return nil
		}
	}
	return fmt.Errorf("got %v, want a refusal that names %s", err, field)
}

// TestATenantDoesNotMakeARoleOfAConfigMap is an override of a tenant that makes another object of what he may write: one that
// gives him all rights in every member.
func TestATenantDoesNotMakeARoleOfAConfigMap(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Members[0]
	ns := fleet.Namespace(t)
	tenant := fleet.Hub.Tenant(t, ns, "configmaps", "propagationpolicies", "overridepolicies")

	err := tenant.Create(t.Context(), overridePolicy(ns, "escalate", patches(
		step("replace", "/apiVersion", `"rbac.authorization.k8s.io/v1"`),
		step("replace", "/kind", `"ClusterRoleBinding"`),
		step("replace", "/metadata/name", `"pwned-`+ns+`"`),
		step("remove", "/metadata/namespace", ""),
		step("add", "/roleRef", `{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}`),
		step("add", "/subjects", `[{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "mallory"}]`),
	)))
	if problem := refusedAt(err, "spec.overrideRules[0].overriders.plaintext[1].path"); problem != nil {
		t.Error(problem)
	}
	carrier := fleettest.ConfigMap(ns, "carrier", map[string]string{"a": "b"})
	fleettest.Create(t, tenant, carrier, fleettest.Policy(ns, "carrier", fleettest.To(member.Name), carrier))
	if err == nil {
		// The policy was accepted: it acts on the ConfigMap now.
		fleettest.ExpectEventually(t, member, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "pwned-" + ns}},
			fleettest.Exists[*rbacv1.ClusterRoleBinding])
		t.Fatal("a tenant who may write ConfigMaps made mallory an administrator of the member")
	}
	fleettest.ExpectEventually(t, member, fleettest.ConfigMap(ns, "carrier", nil), fleettest.Exists[*corev1.ConfigMap])
	fleettest.ExpectAbsent(t, member, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "pwned-" + ns}})
}

// TestNoOverrideReachesIdentity goes through every overrider and every other way to edit what identifies an object.
func TestNoOverrideReachesIdentity(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	tenant := fleet.Hub.Tenant(t, ns, "overridepolicies")
	entries := func(key string) []policyv1alpha1.LabelAnnotationOverrider {
		return []policyv1alpha1.LabelAnnotationOverrider{{Operator: "add", Value: map[string]string{key: "x"}}}
	}
	image := func(path string) policyv1alpha1.Overriders {
		return policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{
			Component: "Repository", Operator: "replace", Value: "kube-system", Predicate: &policyv1alpha1.ImagePredicate{Path: path},
		}}}
	}
	for name, attack := range map[string]struct {
		overriders policyv1alpha1.Overriders
		field      string
	}{
		"metadata":        {patches(step("replace", "/metadata", `{"name": "coredns", "namespace": "kube-system"}`)), "plaintext[0].path"},
		"namespace":       {patches(step("replace", "/metadata/namespace", `"kube-system"`)), "plaintext[0].path"},
		"mark":            {patches(step("add", "/metadata/annotations/flagship.io~1adopted", `"true"`)), "plaintext[0].path"},
		"all-labels":      {patches(step("add", "/metadata/labels", `{"karmada.io/managed": "false"}`)), "plaintext[0].value[karmada.io/managed]"},
		"image-namespace": {image("/metadata/namespace"), "imageOverrider[0].predicate.path"},
		"image-kind":      {image("/kind"), "imageOverrider[0].predicate.path"},
		"field":           {policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: "/metadata/name"}}}, "fieldOverrider[0].fieldPath"},
		"labels":          {policyv1alpha1.Overriders{LabelsOverrider: entries("work.karmada.io/permanent-id")}, "labelsOverrider[0].value[work.karmada.io/permanent-id]"},
		"annotations":     {policyv1alpha1.Overriders{AnnotationsOverrider: entries("work.karmada.io/conflict-resolution")}, "annotationsOverrider[0].value[work.karmada.io/conflict-resolution]"},
	} {
		field := "spec.overrideRules[0].overriders." + attack.field
		policy := overridePolicy(ns, name, attack.overriders)
		if problem := refusedAt(tenant.Create(t.Context(), policy), field); problem != nil {
			t.Errorf("OverridePolicy %s: %v", name, problem)
		}
		wide := &policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + ns}, Spec: policy.Spec}
		wide.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Namespace: ns}}
		err := fleet.Hub.Create(t.Context(), wide)
		if problem := refusedAt(err, field); problem != nil {
			t.Errorf("ClusterOverridePolicy %s: %v", name, problem)
		}
		if err == nil {
			fleettest.Delete(t, fleet.Hub, wide)
		}
	}
}

// TestATenantDoesNotWidenARoleBinding is an override of a RoleBinding that an administrator sends to members: who may write
// OverridePolicies must not give himself another role by that, nor if he may update RoleBindings, or has a policy from before.
func TestATenantDoesNotWidenARoleBinding(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Members[0]
	ns := fleet.Namespace(t)
	tenant := fleet.Hub.Tenant(t, ns, "overridepolicies")
	widen := overridePolicy(ns, "widen", patches(step("replace", "/roleRef/name", `"cluster-admin"`)))
	if err := tenant.Create(t.Context(), widen.DeepCopy()); !apierrors.IsForbidden(err) {
		t.Errorf("without the right to update RoleBindings: %v", err)
	}
	fleettest.Create(t, fleet.Hub, widen)

	team := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "team"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "mallory"}},
	}
	fleettest.Create(t, fleet.Hub, team, fleettest.ClusterPolicy("team-"+ns, fleettest.To(member.Name), team))
	fleettest.ExpectEventually(t, fleet.Hub, &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "team-rolebinding"}},
		func(b *workv1alpha2.ResourceBinding) error {
			c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.Rendered)
			if c == nil || !strings.Contains(c.Message, ns+"/widen") || !strings.Contains(c.Message, "roleRef") {
				return fmt.Errorf("condition %s is %v, want one that names the policy and the field", workv1alpha2.Rendered, c)
			}
			return nil
		})
	fleettest.ExpectAbsent(t, member, team)
}

// TestATemplateDoesNotFakeMarks is a template on which a tenant wrote the labels and annotations by which the control plane
// recognizes what it made in a member.
func TestATemplateDoesNotFakeMarks(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Members[0]
	ns := fleet.Namespace(t)
	tenant := fleet.Hub.Tenant(t, ns, "configmaps", "propagationpolicies")

	faked := fleettest.ConfigMap(ns, "faked", map[string]string{"a": "b"})
	faked.Labels = map[string]string{"app": "mine", "work.karmada.io/permanent-id": "fake", "clusterresourcebinding.karmada.io/permanent-id": "fake", "karmada.io/system": "true"}
	faked.Annotations = map[string]string{"note": "mine", "flagship.io/adopted": "true", "clusterresourcebinding.karmada.io/name": "fake"}
	fleettest.Create(t, tenant, faked, fleettest.Policy(ns, "faked", fleettest.To(member.Name), faked))
	copied := fleettest.ExpectEventually(t, member, fleettest.ConfigMap(ns, "faked", nil), fleettest.Exists[*corev1.ConfigMap])

	if copied.Labels["app"] != "mine" || copied.Annotations["note"] != "mine" {
		t.Errorf("the copy lost what is the tenant's: labels %v, annotations %v", copied.Labels, copied.Annotations)
	}
	for _, key := range []string{"work.karmada.io/permanent-id", "clusterresourcebinding.karmada.io/permanent-id", "karmada.io/system"} {
		if value := copied.Labels[key]; value == "fake" || value == "true" {
			t.Errorf("the copy has the tenant's label %s=%s", key, value)
		}
	}
	for _, key := range []string{"flagship.io/adopted", "clusterresourcebinding.karmada.io/name"} {
		if value, found := copied.Annotations[key]; found {
			t.Errorf("the copy has the tenant's annotation %s=%s", key, value)
		}
	}
}
