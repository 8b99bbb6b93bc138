package hubclient

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// indexed registers indexes with the builder of a fake client.
type indexed struct{ *fake.ClientBuilder }

func (b indexed) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	b.WithIndex(obj, field, extract)
	return nil
}

func clientWith(t *testing.T, fails client.ObjectList, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{policyv1alpha1.AddToScheme, workv1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	if err := IndexPolicies(t.Context(), indexed{builder}); err != nil {
		t.Fatal(err)
	}
	return builder.WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			if fails != nil && cmp.Equal(schemaKind(t, scheme, fails), schemaKind(t, scheme, into)) {
				return errors.New("the cache has stopped")
			}
			return c.List(ctx, into, options...)
		},
	}).Build()
}

func schemaKind(t *testing.T, scheme *runtime.Scheme, obj runtime.Object) schema.GroupVersionKind {
	t.Helper()
	kinds, _, err := scheme.ObjectKinds(obj)
	if err != nil {
		t.Fatal(err)
	}
	return kinds[0]
}

func namesOf[T metav1.Object](objects []T) []string {
	var names []string
	for _, obj := range objects {
		names = append(names, obj.GetNamespace()+"/"+obj.GetName())
	}
	return names
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func TestBothScopesAreListed(t *testing.T) {
	c := clientWith(t, nil,
		&workv1alpha2.ResourceBinding{ObjectMeta: named("shop", "a")}, &workv1alpha2.ResourceBinding{ObjectMeta: named("bank", "b")},
		&workv1alpha2.ClusterResourceBinding{ObjectMeta: named("", "c")},
		&policyv1alpha1.OverridePolicy{ObjectMeta: named("shop", "a")}, &policyv1alpha1.OverridePolicy{ObjectMeta: named("bank", "b")},
		&policyv1alpha1.ClusterOverridePolicy{ObjectMeta: named("", "c")},
	)
	for what, list := range map[string]func() ([]string, error){
		"bank/b shop/a /c": func() ([]string, error) { found, err := Bindings(t.Context(), c); return namesOf(found), err },
		"shop/a": func() ([]string, error) {
			found, err := Bindings(t.Context(), c, client.InNamespace("shop"))
			return namesOf(found), err
		},
		"shop/a /c":          func() ([]string, error) { found, err := Overrides(t.Context(), c, "shop"); return namesOf(found), err },
		"/c":                 func() ([]string, error) { found, err := Overrides(t.Context(), c, ""); return namesOf(found), err },
		"bank/b   shop/a /c": func() ([]string, error) { found, err := AllOverrides(t.Context(), c); return namesOf(found), err },
	} {
		got, err := list()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Fields(what), got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestAListThatFailsIsAnError(t *testing.T) {
	for _, fails := range []client.ObjectList{&workv1alpha2.ResourceBindingList{}, &workv1alpha2.ClusterResourceBindingList{}} {
		if _, err := Bindings(t.Context(), clientWith(t, fails)); err == nil {
			t.Errorf("a failure to list %T is dropped", fails)
		}
	}
	for _, fails := range []client.ObjectList{&policyv1alpha1.OverridePolicyList{}, &policyv1alpha1.ClusterOverridePolicyList{}} {
		if _, err := Overrides(t.Context(), clientWith(t, fails), "shop"); err == nil {
			t.Errorf("a failure to list %T is dropped", fails)
		}
	}
}

func TestPoliciesAreFoundByWhatTheySelect(t *testing.T) {
	selecting := func(names ...string) policyv1alpha1.PropagationSpec {
		var spec policyv1alpha1.PropagationSpec
		for _, name := range names {
			spec.ResourceSelectors = append(spec.ResourceSelectors, policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: "Deployment", Name: name})
		}
		return spec
	}
	policies := Policies{clientWith(t, nil,
		&policyv1alpha1.PropagationPolicy{ObjectMeta: named("shop", "named"), Spec: selecting("web")},
		&policyv1alpha1.PropagationPolicy{ObjectMeta: named("shop", "both"), Spec: selecting("web", "")},
		&policyv1alpha1.PropagationPolicy{ObjectMeta: named("shop", "other"), Spec: selecting("api")},
		&policyv1alpha1.PropagationPolicy{ObjectMeta: named("bank", "foreign"), Spec: selecting("web")},
		&policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: named("", "wide"), Spec: selecting("")},
	)}
	web := policy.Subject{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Namespace: "shop", Name: "web"}
	for what, find := range map[string]func(context.Context, policy.Subject) ([]policyv1alpha1.Propagation, error){
		"shop/both shop/named /wide":            policies.Selecting,
		"shop/both shop/named":                  policies.Naming,
		"shop/both shop/named shop/other /wide": policies.OfKind,
	} {
		found, err := find(t.Context(), web)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Fields(what), namesOf(found)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	decision, err := policies.Choose(t.Context(), web)
	if err != nil || decision.Winner == nil || decision.Winner.GetName() != "both" {
		t.Errorf("the winner is %v, %v, want both", decision.Winner, err)
	}
}
