package apiserver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

var (
	overridePolicies = schema.GroupVersionResource{Group: "policy.karmada.io", Version: "v1alpha1", Resource: "overridepolicies"}
)

func namespace(t *testing.T) string {
	t.Helper()
	created, err := clients.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.Name
}

func overridePolicy(name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	policy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"overrideRules": []any{}},
	}}
	policy.SetOwnerReferences(owners)
	return policy
}

// Clients of any cluster expect both in each namespace.
func TestANamespaceHasItsDefaults(t *testing.T) {
	name := namespace(t)
	complete := func() string {
		if _, err := clients.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		authority, err := clients.CoreV1().ConfigMaps(name).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if authority.Data["ca.crt"] != string(hub.CA()) {
			return "the certificate authority is another one"
		}
		return ""
	}
	eventually(t, complete)
	if _, err := clients.CoreV1().ServiceAccounts(name).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}); err != nil {
		t.Errorf("the account gets no token: %v", err)
	}
	if err := clients.CoreV1().ConfigMaps(name).Delete(t.Context(), "kube-root-ca.crt", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, complete)
}

func TestTypesInAdmissionPoliciesAreChecked(t *testing.T) {
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "replicas"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: `object.spec.replicas > "1"`}},
		},
	}
	policies := clients.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		checked, err := policies.Get(t.Context(), policy.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if checked.Status.TypeChecking == nil || len(checked.Status.TypeChecking.ExpressionWarnings) != 1 {
			return fmt.Sprintf("status %+v: want one warning", checked.Status)
		}
		return ""
	})
	if err := policies.Delete(t.Context(), policy.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestNamespaceDeletionTakesCustomResourcesAlong(t *testing.T) {
	name := namespace(t)
	if _, err := objects.Resource(overridePolicies).Namespace(name).Create(t.Context(), overridePolicy("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := clients.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if _, err := clients.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "the namespace is still there"
		}
		return ""
	})
}

// TestGarbageCollection: the collector watches Works by their storage, and other kinds by requests.
func TestGarbageCollection(t *testing.T) {
	work := func(name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
		owned := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"workload": map[string]any{"manifests": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}}},
		}}
		owned.SetOwnerReferences(owners)
		return owned
	}
	works := workv1alpha1.SchemeGroupVersion.WithResource("works")
	for name, tc := range map[string]struct {
		resource schema.GroupVersionResource
		object   func(string, ...metav1.OwnerReference) *unstructured.Unstructured
	}{"Requests": {overridePolicies, overridePolicy}, "Storage": {works, work}} {
		t.Run(name, func(t *testing.T) {
			name := namespace(t)
			owner, err := clients.CoreV1().ConfigMaps(name).Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			resource := objects.Resource(tc.resource).Namespace(name)
			owned, err := resource.Create(t.Context(), tc.object("owned", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			next := tc.object("next", metav1.OwnerReference{APIVersion: owned.GetAPIVersion(), Kind: owned.GetKind(), Name: owned.GetName(), UID: owned.GetUID()})
			if _, err := resource.Create(t.Context(), next, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := clients.CoreV1().ConfigMaps(name).Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() string {
				left, err := resource.List(t.Context(), metav1.ListOptions{})
				if err != nil {
					return err.Error()
				}
				if len(left.Items) > 0 {
					return fmt.Sprintf("%d owned objects outlive their owners", len(left.Items))
				}
				return ""
			})
		})
	}
}

// TestGarbageCollectionOfNewKinds: also one that it watched, that went, and that is back.
func TestGarbageCollectionOfNewKinds(t *testing.T) {
	for _, life := range []string{"first", "second"} {
		t.Run(life, func(t *testing.T) {
			collectOwnedByWidget(t, defineWidgets(t))
			definition := objects.Resource(definitionResource)
			if err := definition.Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() string {
				if _, err := definition.Get(t.Context(), "widgets.example.com", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					return "the definition is still there"
				}
				return ""
			})
		})
	}
}

func collectOwnedByWidget(t *testing.T, widgets schema.GroupVersionResource) {
	t.Helper()
	name := namespace(t)
	owner, err := objects.Resource(widgets).Namespace(name).Create(t.Context(), widget("owner"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reference := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Widget", Name: "owner", UID: owner.GetUID()}
	_, err = clients.CoreV1().ConfigMaps(name).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{reference}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := objects.Resource(widgets).Namespace(name).Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if _, err := clients.CoreV1().ConfigMaps(name).Get(t.Context(), "owned", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "the owned object outlives its owner of a new kind"
		}
		return ""
	})
}

func TestTokenSecretsAreFilled(t *testing.T) {
	name := namespace(t)
	if _, err := clients.CoreV1().ServiceAccounts(name).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := clients.CoreV1().Secrets(name).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "robot-token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		secret, err := clients.CoreV1().Secrets(name).Get(t.Context(), "robot-token", metav1.GetOptions{})
		if err != nil || len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 || len(secret.Data[corev1.ServiceAccountRootCAKey]) == 0 {
			return "the token Secret stays empty"
		}
		return ""
	})
}

func TestClusterRolesAreAggregated(t *testing.T) {
	rule := rbacv1.PolicyRule{APIGroups: []string{"policy.karmada.io"}, Resources: []string{"*"}, Verbs: []string{"get"}}
	_, err := clients.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "test-policy-reader", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
		Rules:      []rbacv1.PolicyRule{rule},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		view, err := clients.RbacV1().ClusterRoles().Get(t.Context(), "view", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, aggregated := range view.Rules {
			if len(aggregated.APIGroups) == 1 && aggregated.APIGroups[0] == "policy.karmada.io" {
				return ""
			}
		}
		return "view does not include the new rule"
	})
}

// TestCertificatesAreSigned: the controllers of this server run for the second time, as in TestMain, and no other part of the server watches
// these requests.
func TestCertificatesAreSigned(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "robot"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	requests := clients.CertificatesV1().CertificateSigningRequests()
	made, err := requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
	}}
	if _, err := requests.UpdateApproval(t.Context(), made.Name, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		switch signed, err := requests.Get(t.Context(), made.Name, metav1.GetOptions{}); {
		case err != nil:
			return err.Error()
		case len(signed.Status.Certificate) == 0:
			return fmt.Sprintf("the request is not signed: %v", signed.Status.Conditions)
		}
		return ""
	})
}
