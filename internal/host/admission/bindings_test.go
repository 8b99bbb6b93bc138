package admission_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/admission"
)

// readers may get ConfigMaps of the namespace shop and ClusterRoles.
func readers(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	shop := a.GetResource() == "configmaps" && a.GetNamespace() == "shop"
	roles := a.GetResource() == "clusterroles" && a.GetAPIGroup() == "rbac.authorization.k8s.io" && a.GetNamespace() == ""
	if a.GetVerb() == "get" && a.IsResourceRequest() && a.GetUser().GetName() == "jane" && a.GetName() != "" && (shop || roles) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func newBindings(t *testing.T) *admission.Bindings {
	t.Helper()
	plugin := admission.NewBindings(func(_ schema.GroupVersionKind, namespace, name string) bool {
		return namespace == "karmada-cluster" || name == "kube-root-ca.crt"
	})
	mapper := meta.NewDefaultRESTMapper(nil)
	core, rbac := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	mapper.Add(core.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(core.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(core.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(rbac.WithKind("ClusterRole"), meta.RESTScopeRoot)
	plugin.SetRESTMapper(mapper)
	plugin.SetUnconditionalAuthorizer(authorizer.AuthorizerFunc(readers))
	if err := plugin.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	return plugin
}

// bindingOf is a binding of an object; without a namespace it is a ClusterResourceBinding.
func bindingOf(namespace string, resource workv1alpha2.ObjectReference) workv1alpha2.Binding {
	spec := workv1alpha2.ResourceBindingSpec{Resource: resource}
	if namespace == "" {
		return &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: spec}
	}
	return &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"}, Spec: spec}
}

func writeOf(who string, b, old workv1alpha2.Binding) kadmission.Attributes {
	operation, before := kadmission.Create, runtime.Object(nil)
	if old != nil {
		operation, before = kadmission.Update, old.(runtime.Object)
	}
	return kadmission.NewAttributesRecord(b.(runtime.Object), before, workv1alpha2.GroupVersion.WithKind("ResourceBinding"), b.GetNamespace(), b.GetName(),
		workv1alpha2.GroupVersion.WithResource("resourcebindings"), "", operation, nil, false, &user.DefaultInfo{Name: who})
}

func TestBindingsNameTheirOwnTemplates(t *testing.T) {
	object := func(apiVersion, kind, namespace, name string) workv1alpha2.ObjectReference {
		return workv1alpha2.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
	}
	const rbac = "rbac.authorization.k8s.io/v1"
	own := object("v1", "ConfigMap", "shop", "settings")
	tests := map[string]struct {
		who     string
		binding workv1alpha2.Binding
		old     workv1alpha2.Binding
		refused func(error) bool
		words   string
	}{
		"Own":                  {binding: bindingOf("shop", own)},
		"OwnClusterScoped":     {binding: bindingOf("", object(rbac, "ClusterRole", "", "reader"))},
		"NotReadable":          {binding: bindingOf("shop", object("v1", "Secret", "shop", "top")), refused: apierrors.IsForbidden, words: `may not get secrets "top"`},
		"OtherUser":            {who: "mallory", binding: bindingOf("shop", own), refused: apierrors.IsForbidden, words: `user "mallory"`},
		"OtherNamespace":       {binding: bindingOf("tenant", own), refused: apierrors.IsInvalid, words: "spec.resource.namespace"},
		"NoNamespace":          {binding: bindingOf("shop", object("v1", "ConfigMap", "", "settings")), refused: apierrors.IsInvalid, words: "spec.resource.namespace"},
		"WideWithNamespace":    {binding: bindingOf("", own), refused: apierrors.IsInvalid, words: "spec.resource.namespace"},
		"WideOfNamespacedKind": {binding: bindingOf("", object("v1", "ConfigMap", "", "settings")), refused: apierrors.IsInvalid, words: "spec.resource.kind"},
		"ClusterScopedKind":    {binding: bindingOf("shop", object(rbac, "ClusterRole", "shop", "reader")), refused: apierrors.IsInvalid, words: "spec.resource.kind"},
		"ControlPlane":         {binding: bindingOf("karmada-cluster", object("v1", "Secret", "karmada-cluster", "member1")), refused: apierrors.IsInvalid, words: "spec.resource"},
		"NeverATemplate":       {binding: bindingOf("shop", object("v1", "ConfigMap", "shop", "kube-root-ca.crt")), refused: apierrors.IsInvalid, words: "spec.resource"},
		"UnknownKind":          {binding: bindingOf("shop", object("v1", "Gear", "shop", "a")), refused: apierrors.IsInvalid, words: "spec.resource.kind"},
		"Unchanged":            {who: "mallory", binding: bindingOf("shop", own), old: bindingOf("shop", own)},
		"Changed":              {who: "mallory", binding: bindingOf("shop", own), old: bindingOf("shop", object("v1", "ConfigMap", "shop", "other")), refused: apierrors.IsForbidden},
		"ControlPlaneItself":   {who: user.APIServerUser, binding: bindingOf("shop", object("v1", "Secret", "shop", "top"))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.who == "" {
				test.who = "jane"
			}
			err := newBindings(t).Validate(t.Context(), writeOf(test.who, test.binding, test.old), nil)
			switch {
			case test.refused == nil && err != nil:
				t.Errorf("refused: %v", err)
			case test.refused != nil && (err == nil || !test.refused(err) || !strings.Contains(err.Error(), test.words)):
				t.Errorf("got %v, want a refusal that says %q", err, test.words)
			}
		})
	}
}

func TestOnlyTheControlPlaneListsDependencies(t *testing.T) {
	own := workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	listing := func(list string) workv1alpha2.Binding {
		b := bindingOf("shop", own)
		if list != "" {
			b.SetAnnotations(map[string]string{workv1alpha2.DependenciesAnnotation: list})
		}
		return b
	}
	for name, test := range map[string]struct {
		who, before, after, want string
		create                   bool
	}{
		"Created":      {who: "jane", create: true, after: "[1]", want: ""},
		"Changed":      {who: "jane", before: "[1]", after: "[2]", want: "[1]"},
		"Removed":      {who: "jane", before: "[1]", after: "", want: "[1]"},
		"ControlPlane": {who: user.APIServerUser, before: "[1]", after: "[2]", want: "[2]"},
	} {
		after, before := listing(test.after), listing(test.before)
		if test.create {
			before = nil
		}
		if err := newBindings(t).Admit(t.Context(), writeOf(test.who, after, before), nil); err != nil {
			t.Fatal(err)
		}
		if got := after.GetAnnotations()[workv1alpha2.DependenciesAnnotation]; got != test.want {
			t.Errorf("%s: the list is %q, want %q", name, got, test.want)
		}
	}
}

func TestOnlyTheControlPlaneBringsIDs(t *testing.T) {
	for who, want := range map[string]string{"jane": "new-id", user.APIServerUser: "brought"} {
		b := bindingOf("shop", workv1alpha2.ObjectReference{})
		b.SetLabels(map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: "brought"})
		if err := newPlugin().Admit(t.Context(), writeOf(who, b, nil), nil); err != nil {
			t.Fatal(err)
		}
		if got := b.GetLabels()[workv1alpha2.ResourceBindingPermanentIDLabel]; got != want {
			t.Errorf("%s: the id is %q, want %q", who, got, want)
		}
	}
}
