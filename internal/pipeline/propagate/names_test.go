package propagate

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/bindings"
)

func TestEqualNamesInTwoGroups(t *testing.T) {
	anything := with(func(s *policyv1alpha1.PropagationSpec) {
		s.ResourceSelectors = append(s.ResourceSelectors,
			policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: "Deployment"},
			policyv1alpha1.ResourceSelector{APIVersion: "example.io/v1", Kind: "Deployment"})
	})
	h := newHub(t, pp("p", anything))
	h.reconcile(h.deployment("web"))
	other := h.object(hubstore.Ref{GroupVersionKind: schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Deployment"}, Namespace: "shop", Name: "web"}, nil, 1)
	h.writes = nil
	h.reconcile(other)
	second := workv1alpha2.AlternativeBindingName(other.GroupVersionKind.GroupKind(), "shop", "web")
	h.expectWrites("the name is taken", "patch template web", "create ResourceBinding "+second)
	h.writes = nil
	h.reconcile(other)
	h.expectWrites("it is found again")
	first := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment"}}
	h.update(first, func() { first.Finalizers = nil })
	if err := h.client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	h.writes = nil
	h.reconcile(other)
	h.expectWrites("it keeps its name when the other is free")
}

// A cache that is behind hides the binding that an earlier reconcile created, and may show it in the middle of the next one.
func TestTheCacheShowsItsOwnBindingLate(t *testing.T) {
	for name, subject := range map[string]struct {
		policies []client.Object
		attached bool
	}{
		"Claimed":  {policies: []client.Object{pp("p")}},
		"Attached": {attached: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, subject.policies...)
			ref := h.deployment("web")
			reconcile := func() { h.reconcile(ref) }
			if subject.attached {
				dependant := bindings.New(hubstore.Ref{GroupVersionKind: ref.GroupVersionKind, Namespace: "shop", Name: "needs-web"}, "uid", "needs-web-deployment")
				meta, _ := h.templates.Meta(ref)
				reconcile = func() {
					binding, err := h.loop.bindingOf(t.Context(), ref)
					if err == nil {
						err = h.loop.attach(t.Context(), ref, meta, binding, []workv1alpha2.Binding{dependant})
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			reconcile()
			hidden := 2 // reads: of the plain name, and of the alternative
			h.loop.client = interceptor.NewClient(h.client.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if _, ok := obj.(*workv1alpha2.ResourceBinding); ok && hidden > 0 {
						hidden--
						return apierrors.NewNotFound(workv1alpha2.SchemeGroupVersion.WithResource("resourcebindings").GroupResource(), key.Name)
					}
					return c.Get(ctx, key, obj, opts...)
				},
			})
			reconcile()
			var list workv1alpha2.ResourceBindingList
			if err := h.client.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			if hidden > 0 || len(list.Items) != 1 {
				t.Errorf("%d reads were not made, and there are %d bindings of one template, want one", hidden, len(list.Items))
			}
		})
	}
}
