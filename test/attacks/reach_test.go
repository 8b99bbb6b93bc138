package attacks_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// boundTo is a new user who has a ClusterRole of Kubernetes in a namespace.
func boundTo(t *testing.T, fleet *fleettest.Fleet, namespace, role string) *fleettest.Cluster {
	t.Helper()
	name := role + "-" + namespace
	fleettest.Create(t, fleet.Hub, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{userNamed(name)},
	})
	user := fleet.Hub.As(t, rest.ImpersonationConfig{UserName: name})
	user.AwaitRight(t, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Group: policyv1alpha1.GroupName, Resource: "propagationpolicies"})
	return user
}

// TestATenantDoesNotChangeWhatHeMayNotUpdate is a tenant with the role edit who turns policies and overrides on what an administrator
// bounds him with.
func TestATenantDoesNotChangeWhatHeMayNotUpdate(t *testing.T) {
	fleet := shared.Start(t)
	member, elsewhere := fleet.Members[0], fleet.Members[1]
	ns := fleet.Namespace(t)
	tenant, viewer := boundTo(t, fleet, ns, "edit"), boundTo(t, fleet, ns, "view")

	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "bound", Labels: map[string]string{"for": "tenant"}},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("5")}},
	}
	selecting := func(apiVersion, kind, name string) []policyv1alpha1.ResourceSelector {
		return []policyv1alpha1.ResourceSelector{{APIVersion: apiVersion, Kind: kind, Name: name}}
	}
	rules := func(name, pods string, selectors []policyv1alpha1.ResourceSelector) *policyv1alpha1.OverridePolicy {
		policy := overridePolicy(ns, name, patches(step("replace", "/spec/hard/pods", pods)))
		policy.Spec.ResourceSelectors = selectors
		return policy
	}
	ofAdministrator := rules("stricter", `"4"`, selecting("v1", "ResourceQuota", quota.Name))
	fleettest.Create(t, fleet.Hub, quota, ofAdministrator, fleettest.ClusterPolicy("bound-"+ns, fleettest.To(member.Name), quota))
	hasPods := func(pods string) func(*corev1.ResourceQuota) error {
		return func(q *corev1.ResourceQuota) error {
			if got := q.Spec.Hard[corev1.ResourcePods]; got.String() != pods {
				return fmt.Errorf("the quota allows %s pods, want %s", got.String(), pods)
			}
			return nil
		}
	}
	fleettest.ExpectEventually(t, member, quota.DeepCopy(), hasPods("4"))

	taking := fleettest.Policy(ns, "taking", fleettest.To(elsewhere.Name), quota)
	taking.Spec.Preemption, taking.Spec.Priority = policyv1alpha1.PreemptAlways, new(int32(9))
	byKind := fleettest.Policy(ns, "by-kind", fleettest.To(elsewhere.Name), quota)
	byKind.Spec.ResourceSelectors = selecting("v1", "LimitRange", "")
	roles := fleettest.Policy(ns, "roles", fleettest.To(elsewhere.Name), quota)
	roles.Spec.ResourceSelectors = selecting("rbac.authorization.k8s.io/v1", "RoleBinding", "")
	unknown := fleettest.Policy(ns, "unknown", fleettest.To(elsewhere.Name), quota)
	unknown.Spec.ResourceSelectors = selecting("unserved.example.org/v1", "Nothing", "")
	byLabel := rules("by-label", `"9999"`, []policyv1alpha1.ResourceSelector{{
		APIVersion: "v1", Kind: "ResourceQuota", LabelSelector: &metav1.LabelSelector{MatchLabels: quota.Labels},
	}})
	for words, policy := range map[string]client.Object{
		`may not update resourcequotas "bound"`:     rules("voiding", `"9999"`, selecting("v1", "ResourceQuota", quota.Name)),
		`may not update resourcequotas in`:          byLabel,
		`may not update all objects of namespace`:   rules("all", `"9999"`, nil),
		`resourceSelectors[0]: user "edit-` + ns:    taking,
		`may not update limitranges in`:             byKind,
		`rolebindings.rbac.authorization.k8s.io in`: roles,
		`the kind Nothing is not served`:            unknown,
	} {
		if err := tenant.Create(t.Context(), policy); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
			t.Errorf("creating %T %s: got %v, want a refusal that says %q", policy, policy.GetName(), err, words)
		}
	}
	changed := ofAdministrator.DeepCopy()
	changed.Spec.ResourceSelectors = selecting("v1", "ConfigMap", "own")
	for what, err := range map[string]error{
		"turning the administrator's policy to something else": tenant.Patch(t.Context(), changed, client.MergeFrom(ofAdministrator)),
		"deleting the administrator's policy":                  tenant.Delete(t.Context(), ofAdministrator.DeepCopy()),
		"deleting all policies":                                tenant.DeleteAllOf(t.Context(), &policyv1alpha1.OverridePolicy{}, client.InNamespace(ns)),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `may not update resourcequotas "bound"`) {
			t.Errorf("%s: got %v, want a refusal", what, err)
		}
	}

	// What he may update he may send and override; an administrator may do both for him.
	own := fleettest.ConfigMap(ns, "own", map[string]string{"a": "b"})
	edit := overridePolicy(ns, "own", patches(step("replace", "/data/a", `"c"`)))
	edit.Spec.ResourceSelectors = selecting("v1", "ConfigMap", "own")
	fleettest.Create(t, tenant, own, edit, fleettest.Policy(ns, "own", fleettest.To(member.Name, elsewhere.Name), own))
	for _, in := range []*fleettest.Cluster{member, elsewhere} {
		fleettest.ExpectEventually(t, in, fleettest.ConfigMap(ns, "own", nil), func(c *corev1.ConfigMap) error {
			if c.Data["a"] != "c" {
				return fmt.Errorf("the data is %v", c.Data)
			}
			return nil
		})
	}
	fleettest.ExpectEventually(t, member, quota.DeepCopy(), hasPods("4"))
	fleettest.ExpectAbsent(t, elsewhere, quota)
	labelled := ofAdministrator.DeepCopy()
	labelled.Labels = map[string]string{"seen-by": "tenant"}
	if err := tenant.Patch(t.Context(), labelled, client.MergeFrom(ofAdministrator)); err != nil {
		t.Errorf("a change that is none of the spec: %v", err)
	}

	// Overrides may have values of Secrets, which viewers do not read.
	if err := viewer.Get(t.Context(), client.ObjectKeyFromObject(edit), &policyv1alpha1.OverridePolicy{}); !apierrors.IsForbidden(err) {
		t.Errorf("a viewer reads an OverridePolicy: got %v, want a refusal", err)
	}
	if err := tenant.Get(t.Context(), client.ObjectKeyFromObject(edit), &policyv1alpha1.OverridePolicy{}); err != nil {
		t.Errorf("a tenant does not read his OverridePolicy: %v", err)
	}
}

// TestTokensOfTheControlPlaneStay is a Secret with a token of the control plane that is sent as one of another type, or as part of another.
func TestTokensOfTheControlPlaneStay(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Members[0]
	ns := fleet.Namespace(t)
	tenant := fleet.Hub.Tenant(t, ns, "secrets", "propagationpolicies", "overridepolicies")

	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "robot", Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
	fleettest.Create(t, fleet.Hub, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "robot"}}, token)
	filled := fleettest.ExpectEventually(t, fleet.Hub, token.DeepCopy(), func(s *corev1.Secret) error {
		if len(s.Data[corev1.ServiceAccountTokenKey]) == 0 {
			return errors.New("the token is not there yet")
		}
		return nil
	})
	retyped := overridePolicy(ns, "retyped", patches(step("replace", "/type", `"Opaque"`), step("add", "/data/more", `"eA=="`)))
	retyped.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Secret", Name: "robot"}}
	fleettest.Create(t, tenant, retyped, fleettest.Policy(ns, "robot", fleettest.To(member.Name), token))
	sent := fleettest.ExpectEventually(t, member, fleettest.Secret(ns, "robot", nil), fleettest.Exists[*corev1.Secret])
	if len(sent.Data) > 0 || sent.Annotations[corev1.ServiceAccountUIDKey] != "" {
		t.Errorf("the copy has the values %d and the annotations %v", len(sent.Data), sent.Annotations)
	}

	kubeconfig := fleettest.Secret(ns, "kubeconfig", nil)
	kubeconfig.Data = map[string][]byte{"config": append([]byte("users:\n- name: robot\n  user:\n    token: "), filled.Data[corev1.ServiceAccountTokenKey]...)}
	fleettest.Create(t, tenant, kubeconfig, fleettest.Policy(ns, "kubeconfig", fleettest.To(member.Name), kubeconfig))
	name := workv1alpha2.BindingName("Secret", "kubeconfig")
	fleettest.ExpectEventually(t, fleet.Hub, &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}},
		func(b *workv1alpha2.ResourceBinding) error {
			c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.Rendered)
			if c == nil || c.Reason != workv1alpha2.ForbiddenReason || !strings.Contains(c.Message, "data[config] has a token of a service account") {
				return fmt.Errorf("condition %s is %v, want one that names the key", workv1alpha2.Rendered, c)
			}
			return nil
		})
	fleettest.ExpectAbsent(t, member, kubeconfig)
}

// TestNoScriptReadsASecret is a customization of an operator, who may not read Secrets: what it returns is in bindings, which viewers read.
func TestNoScriptReadsASecret(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Members[0]
	ns := fleet.Namespace(t)
	operator := fleet.Hub.As(t, rest.ImpersonationConfig{UserName: "scripts-" + ns})
	fleet.Hub.ClusterRights(t, "scripts-"+ns, rbacv1.PolicyRule{
		APIGroups: []string{configv1alpha1.GroupName}, Resources: []string{"resourceinterpretercustomizations"}, Verbs: []string{"*"},
	})
	operator.AwaitRight(t, authorizationv1.ResourceAttributes{Group: configv1alpha1.GroupName, Resource: "resourceinterpretercustomizations", Verb: "create"})
	const password = "canary-for-scripts-4417"
	// A marker shows that the scripts ran; the values of other Secrets of the fleet are not to be in any binding either.
	fleettest.Create(t, operator, &configv1alpha1.ResourceInterpreterCustomization{
		ObjectMeta: metav1.ObjectMeta{Name: "secrets-" + ns},
		Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
			Target: configv1alpha1.CustomizationTarget{APIVersion: "v1", Kind: "Secret"},
			Customizations: configv1alpha1.CustomizationRules{
				StatusReflection:     &configv1alpha1.StatusReflection{LuaScript: `function ReflectStatus(o) return {reflected = "yes", data = o.data, annotations = o.metadata.annotations} end`},
				HealthInterpretation: &configv1alpha1.HealthInterpretation{LuaScript: `function InterpretHealth(o) if o.data ~= nil then error(o.data.password) end return true end`},
				Retention: &configv1alpha1.LocalValueRetention{LuaScript: `function Retain(desired, observed)
					if desired.metadata.annotations == nil then desired.metadata.annotations = {} end
					desired.metadata.annotations["stolen"] = desired.data.password
					return desired
				end`},
			},
		},
	})
	secret := fleettest.Secret(ns, "read", map[string]string{"password": password})
	fleettest.Create(t, fleet.Hub, secret, fleettest.Policy(ns, "read", fleettest.To(member.Name), secret))
	encoded := []byte(base64.StdEncoding.EncodeToString([]byte(password)))
	fleettest.ExpectEventually(t, fleet.Hub, &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: workv1alpha2.BindingName("Secret", "read")}},
		func(b *workv1alpha2.ResourceBinding) error {
			raw, err := json.Marshal(b)
			if err != nil {
				return err
			}
			if bytes.Contains(raw, encoded) || bytes.Contains(raw, []byte(password)) {
				t.Error("a value of the Secret is in its binding")
			}
			if !bytes.Contains(raw, []byte(`"reflected":"yes"`)) {
				return fmt.Errorf("the status is not reflected yet: %v", b.Status.AggregatedStatus)
			}
			return nil
		})
	fleettest.ExpectEventually(t, member, fleettest.Secret(ns, "read", nil), func(s *corev1.Secret) error {
		if got := string(s.Data["password"]); got != password {
			return fmt.Errorf("the copy has the password %q", got)
		}
		if stolen := s.Annotations["stolen"]; strings.Contains(stolen, string(encoded)) {
			return fmt.Errorf("a value is in an annotation: %s", stolen)
		}
		return nil
	})
}
