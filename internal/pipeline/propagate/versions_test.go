package propagate

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// The hub stores Deployments as apps/v1 and serves them as apps/v1beta1 as well.
func servingBeta(h *fakeHub) {
	h.templates.older = map[schema.GroupVersionKind]schema.GroupVersionKind{
		deploymentKind.GroupKind().WithVersion("v1beta1"): deploymentKind,
	}
}

func byBeta(name string) policyOption {
	return with(func(s *policyv1alpha1.PropagationSpec) {
		s.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1beta1", Kind: "Deployment", Name: name}}
	})
}

func TestAPolicyMayNameAnyServedVersion(t *testing.T) {
	for _, name := range []string{"web", ""} {
		h := newHub(t, pp("p", byBeta(name)))
		servingBeta(h)
		ref := h.deployment("web")
		h.reconcile(ref)
		h.expectWrites("a template selected by name "+name+" in another version", "patch template web", "create ResourceBinding web-deployment")
		if got := h.binding(ref).BindingSpec().Resource.APIVersion; got != "apps/v1" {
			t.Errorf("the binding names the template by %s, want the version that is watched", got)
		}
	}
}

func TestAPolicyThatComesLaterFindsTemplatesByAnyServedVersion(t *testing.T) {
	for _, name := range []string{"web", ""} {
		h := newHub(t)
		servingBeta(h)
		ref := h.deployment("web")
		h.create(pp("p", byBeta(name)))
		h.policyChanged(policy.Key{Namespace: "shop", Name: "p"})
		if h.bindingGone(ref) {
			t.Errorf("selected by %q: no binding", name)
		}
	}
}

func TestAPreemptorMayNameAnyServedVersion(t *testing.T) {
	h := newHub(t, pp("first"))
	servingBeta(h)
	ref := h.deployment("web")
	h.reconcile(ref)
	h.create(pp("urgent", byBeta("web"), priority(5), preempting))
	h.policyChanged(policy.Key{Namespace: "shop", Name: "urgent"})
	if got := policy.ClaimOn(h.binding(ref)).Policy; got != (policy.Key{Namespace: "shop", Name: "urgent"}) {
		t.Errorf("the template belongs to %s", got)
	}
}
