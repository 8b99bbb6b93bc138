package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// TestLimitsOfAFullNamespace has a check that refuses everything that adds to a namespace.
func TestLimitsOfAFullNamespace(t *testing.T) {
	plugin := NewLimits(func(_ string, creates bool, grows func() bool) error {
		if creates || grows() {
			return errors.New("full")
		}
		return nil
	}, nil, nil)
	tenant := &user.DefaultInfo{Name: "tenant"}
	cm := func(value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Data: map[string]string{"k": value}}
	}
	going := cm("longer")
	going.DeletionTimestamp = &metav1.Time{}
	configMap, event := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}
	review := schema.GroupVersionKind{Group: "authorization.k8s.io", Version: "v1", Kind: "LocalSubjectAccessReview"}
	for _, c := range []struct {
		reason      string
		kind        schema.GroupVersionKind
		namespace   string
		operation   admission.Operation
		subresource string
		object, old runtime.Object
		who         user.Info
		refused     bool
	}{
		{reason: "a new object", kind: configMap, namespace: "shop", operation: admission.Create, object: cm("a"), who: tenant, refused: true},
		{reason: "an object of no namespace", kind: configMap, operation: admission.Create, object: cm("a"), who: tenant},
		{reason: "an update that adds", kind: configMap, namespace: "shop", operation: admission.Update, object: cm("aa"), old: cm("a"), who: tenant, refused: true},
		{reason: "the same through a subresource", kind: configMap, namespace: "shop", operation: admission.Update, subresource: "status", object: cm("aa"), old: cm("a"), who: tenant, refused: true},
		{reason: "an update that takes away", kind: configMap, namespace: "shop", operation: admission.Update, object: cm("a"), old: cm("aa"), who: tenant},
		{reason: "an update of an object in deletion", kind: configMap, namespace: "shop", operation: admission.Update, object: going, old: cm("a"), who: tenant},
		{reason: "an Event", kind: event, namespace: "shop", operation: admission.Create, object: &corev1.Event{}, who: tenant, refused: true},
		{reason: "a review", kind: review, namespace: "shop", operation: admission.Create, object: cm("a"), who: tenant},
		{reason: "an eviction", kind: configMap, namespace: "shop", operation: admission.Create, subresource: "eviction", object: cm("a"), who: tenant},
		{reason: "the control plane", kind: configMap, namespace: "shop", operation: admission.Create, object: cm("a"),
			who: &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}},
	} {
		a := admission.NewAttributesRecord(c.object, c.old, c.kind, c.namespace, "a", schema.GroupVersionResource{}, c.subresource, c.operation, nil, false, c.who)
		if err := plugin.Validate(t.Context(), a, nil); (err != nil) != c.refused {
			t.Errorf("%s: %v, refused should be %t", c.reason, err, c.refused)
		}
	}
}

// TestAnEventIsNoObject: a namespace that is full of objects still gets Events.
func TestAnEventIsNoObject(t *testing.T) {
	plugin := NewLimits(func(_ string, creates bool, _ func() bool) error {
		if creates {
			return errors.New("full")
		}
		return nil
	}, nil, nil)
	a := admission.NewAttributesRecord(&corev1.Event{}, nil, schema.GroupVersionKind{Version: "v1", Kind: "Event"}, "shop", "e",
		schema.GroupVersionResource{}, "", admission.Create, nil, false, &user.DefaultInfo{Name: "tenant"})
	if err := plugin.Validate(t.Context(), a, nil); err != nil {
		t.Error(err)
	}
}

// mayUpdateNamespaces allows one user to update namespaces in the whole control plane.
type mayUpdateNamespaces string

func (m mayUpdateNamespaces) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser().GetName() == string(m) && a.GetVerb() == "update" && a.GetResource() == "namespaces" && a.GetNamespace() == "" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func TestWhoChangesLimits(t *testing.T) {
	plugin := NewLimits(nil, nil, func(annotations map[string]string) field.ErrorList {
		if annotations[workv1alpha1.ObjectLimitAnnotation] == "many" {
			return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations"), "many", "not a number")}
		}
		return nil
	})
	plugin.SetUnconditionalAuthorizer(mayUpdateNamespaces("operator"))
	namespace := func(annotations map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: annotations}}
	}
	limit := func(value string) *corev1.Namespace {
		return namespace(map[string]string{workv1alpha1.ObjectLimitAnnotation: value})
	}
	for _, c := range []struct {
		reason, who string
		old         *corev1.Namespace
		object      *corev1.Namespace
		subresource string
		want        string
	}{
		{"an operator sets a limit", "operator", namespace(nil), limit("5"), "", ""},
		{"a tenant does", "tenant", namespace(nil), limit("5"), "", "ClusterRoleBinding"},
		{"a tenant changes one through the status", "tenant", limit("5"), limit("6"), "status", "ClusterRoleBinding"},
		{"a tenant removes one", "tenant", limit("5"), namespace(nil), "", "ClusterRoleBinding"},
		{"a tenant creates a namespace with one", "tenant", nil, limit("0"), "", "ClusterRoleBinding"},
		{"a tenant changes something else", "tenant", limit("5"), namespace(map[string]string{workv1alpha1.ObjectLimitAnnotation: "5", "a": "b"}), "", ""},
		{"an operator errs", "operator", namespace(nil), limit("many"), "", "not a number"},
	} {
		operation, old := admission.Create, runtime.Object(nil)
		if c.old != nil {
			operation, old = admission.Update, c.old
		}
		a := admission.NewAttributesRecord(c.object, old, schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "shop", "shop",
			schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, c.subresource, operation, nil, false, &user.DefaultInfo{Name: c.who})
		err := plugin.Validate(t.Context(), a, nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.reason, err, c.want)
		}
	}
}
