package taken

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// mapping is one of the control plane for a kind.
func mapping(group, version, kind string, scope meta.RESTScope) *meta.RESTMapping {
	gvk := schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return &meta.RESTMapping{Resource: plural, GroupVersionKind: gvk, Scope: scope}
}

func object(apiVersion, kind, namespace, name, uid string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name, "uid": uid}}}
}

func TestAnotherObjectIsNotTheOneThatWasRequested(t *testing.T) {
	deployment := Request{Mapping: mapping("apps", "v1", "Deployment", meta.RESTScopeNamespace), Namespace: "shop", Name: "web", UID: "u"}
	for name, tc := range map[string]struct {
		got  *unstructured.Unstructured
		want string
	}{
		"Same":      {object("apps/v1", "Deployment", "shop", "web", "u"), ""},
		"Kind":      {object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "web", "u"), "apiVersion"},
		"OtherKind": {object("apps/v1", "StatefulSet", "shop", "web", "u"), "kind"},
		"Version":   {object("apps/v1beta1", "Deployment", "shop", "web", "u"), "apiVersion"},
		"Namespace": {object("apps/v1", "Deployment", "kube-system", "web", "u"), "metadata.namespace"},
		"None":      {object("apps/v1", "Deployment", "", "web", "u"), "metadata.namespace"},
		"Name":      {object("apps/v1", "Deployment", "shop", "other", "u"), "metadata.name"},
		"UID":       {object("apps/v1", "Deployment", "shop", "web", "v"), "metadata.uid"},
		"Empty":     {&unstructured.Unstructured{Object: map[string]any{}}, "apiVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := deployment.Same(tc.got); (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want+" is") {
				t.Errorf("the error is %v, want one about %q", err, tc.want)
			}
		})
	}
}

func TestWhatIsNeverRequested(t *testing.T) {
	for name, tc := range map[string]struct {
		mapping         *meta.RESTMapping
		namespace, name string
		want            string
	}{
		"Own":       {mapping("", "v1", "ConfigMap", meta.RESTScopeNamespace), "karmada-system", "web", "belongs to the control plane"},
		"Execution": {mapping("", "v1", "Secret", meta.RESTScopeNamespace), "karmada-es-m1", "web", "belongs to the control plane"},
		"System":    {mapping("apps", "v1", "Deployment", meta.RESTScopeNamespace), "kube-system", "web", "belongs to the control plane"},
		"Namespace": {mapping("", "v1", "Namespace", meta.RESTScopeRoot), "", "shop", "in every cluster"},
		"Policy":    {mapping("policy.karmada.io", "v1alpha1", "OverridePolicy", meta.RESTScopeNamespace), "shop", "web", "no template"},
		"Lease":     {mapping("coordination.k8s.io", "v1", "Lease", meta.RESTScopeNamespace), "shop", "web", "no template"},
		"Requests":  {mapping("certificates.k8s.io", "v1", "CertificateSigningRequest", meta.RESTScopeRoot), "", "x", "no template"},
		"Trust":     {mapping("", "v1", "ConfigMap", meta.RESTScopeNamespace), "shop", "kube-root-ca.crt", "no template"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(tc.mapping, tc.namespace, tc.name); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want %q in it", err, tc.want)
			}
		})
	}
	// The scope is that of the control plane: a member gives a cluster-scoped kind no namespace.
	if r, err := New(mapping("rbac.authorization.k8s.io", "v1", "ClusterRole", meta.RESTScopeRoot), "shop", "x"); err != nil || r.Namespace != "" {
		t.Errorf("a cluster-scoped request is %+v, %v", r, err)
	}
}

func TestWhatActsOnTheControlPlane(t *testing.T) {
	for _, tc := range []struct {
		group, kind string
		scope       meta.RESTScope
		secret      string
		acts        bool
	}{
		{"", "ConfigMap", meta.RESTScopeNamespace, "", false},
		{"apps", "Deployment", meta.RESTScopeNamespace, "", false},
		{"batch", "CronJob", meta.RESTScopeNamespace, "", false},
		{"shop.example.com", "Order", meta.RESTScopeNamespace, "", false},
		{"", "Secret", meta.RESTScopeNamespace, "Opaque", false},
		{"", "Secret", meta.RESTScopeNamespace, "kubernetes.io/tls", false},
		{"", "Secret", meta.RESTScopeNamespace, "kubernetes.io/service-account-token", true},
		{"", "Secret", meta.RESTScopeNamespace, "bootstrap.kubernetes.io/token", true},
		{"", "Secret", meta.RESTScopeNamespace, "flagship.io/deleted-objects", true},
		{"", "ServiceAccount", meta.RESTScopeNamespace, "", true},
		{"", "ResourceQuota", meta.RESTScopeNamespace, "", true},
		{"", "LimitRange", meta.RESTScopeNamespace, "", true},
		{"", "Endpoints", meta.RESTScopeNamespace, "", true},
		{"discovery.k8s.io", "EndpointSlice", meta.RESTScopeNamespace, "", true},
		{"apps", "ControllerRevision", meta.RESTScopeNamespace, "", true},
		{"rbac.authorization.k8s.io", "Role", meta.RESTScopeNamespace, "", true},
		{"rbac.authorization.k8s.io", "RoleBinding", meta.RESTScopeNamespace, "", true},
		{"rbac.authorization.k8s.io", "ClusterRoleBinding", meta.RESTScopeRoot, "", true},
		{"admissionregistration.k8s.io", "ValidatingAdmissionPolicy", meta.RESTScopeRoot, "", true},
		{"admissionregistration.k8s.io", "MutatingWebhookConfiguration", meta.RESTScopeRoot, "", true},
		{"apiextensions.k8s.io", "CustomResourceDefinition", meta.RESTScopeRoot, "", true},
		{"flowcontrol.apiserver.k8s.io", "FlowSchema", meta.RESTScopeRoot, "", true},
		{"shop.example.com", "Region", meta.RESTScopeRoot, "", true},
		{"multicluster.x-k8s.io", "ServiceExport", meta.RESTScopeNamespace, "", true},
		{"operator.karmada.io", "Karmada", meta.RESTScopeNamespace, "", true},
		{"flagship.io", "Later", meta.RESTScopeNamespace, "", true},
		{"later", "Thing", meta.RESTScopeNamespace, "", true},
		{"later.k8s.io", "Thing", meta.RESTScopeNamespace, "", true},
	} {
		r := Request{Mapping: mapping(tc.group, "v1", tc.kind, tc.scope), Namespace: "shop", Name: "x"}
		obj := object("v1", tc.kind, "shop", "x", "")
		if tc.secret != "" {
			obj.Object["type"] = tc.secret
		}
		if got := r.Acts(obj); (got != "") != tc.acts {
			t.Errorf("%s %s %s acts: %q, want %v", tc.group, tc.kind, tc.secret, got, tc.acts)
		}
	}
}

func TestADigestIsOfEverything(t *testing.T) {
	digest := func(cluster, uid string, values ...any) string {
		t.Helper()
		d, err := Digest(cluster, types.UID(uid), values...)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	value := func(data string) any { return map[string]any{"data": map[string]any{"a": data, "b": "x"}} }
	same := digest("m1", "u", value("1"), value("2"))
	if again := digest("m1", "u", value("1"), value("2")); again != same || Expected(same, again) != nil {
		t.Errorf("the same has the digests %s and %s", same, again)
	}
	for i, other := range []string{
		digest("m2", "u", value("1"), value("2")), digest("m1", "v", value("1"), value("2")), digest("m1", "u", value("1")),
		digest("m1", "u", value("2"), value("1")), digest("m1", "u", value("1"), value("3")), digest("m1", "u", []any{value("1"), value("2")}),
	} {
		if Expected(same, other) == nil {
			t.Errorf("%d: something else has the same digest", i)
		}
	}
	if Expected("", same) == nil || Expected(same[:20], same) == nil {
		t.Error("a part of a digest is accepted")
	}
}
