package propagate

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// TestWhatAnotherKindHasIsNoPolicys: a template that a MultiClusterService has is left to it, and both the template and a
// policy that comes later say so.
func TestWhatAnotherKindHasIsNoPolicys(t *testing.T) {
	h := newHub(t, pp("p", selecting("tier=front")))
	ref := h.deployment("web")
	h.templates.change(ref, func(obj *unstructured.Unstructured) {
		labels := merged(obj.GetLabels(), map[string]string{policyv1alpha1.ResourceTemplateClaimedByLabel: networkingv1alpha1.KindMultiClusterService})
		obj.SetLabels(labels)
		obj.SetAnnotations(map[string]string{
			networkingv1alpha1.MultiClusterServiceNamespaceLabel: "shop", networkingv1alpha1.MultiClusterServiceNameLabel: "web",
		})
	})
	h.reconcile(ref)
	if len(h.events) > 0 {
		t.Errorf("a restart is news: %q", h.events)
	}
	h.clock.Step(2 * time.Minute)
	h.reconcile(ref)
	h.expectWrites("a claimed template")
	h.expectEvent("PropagationPolicy shop/p selects the object, but MultiClusterService shop/web has it")
	h.policyChanged(policy.Key{Namespace: "shop", Name: "p"})
	h.expectEvent("1 of 1 selected objects belong to others, which this policy may not preempt: MultiClusterService shop/web (1)")
}
