package policy

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

// FuzzPolicyStaysInItsNamespace matches any selectors with a template. A policy of a namespace never selects one of another,
// and a policy that admission accepts says of the same template the same twice.
func FuzzPolicyStaysInItsNamespace(f *testing.F) {
	for _, spec := range []policyv1alpha1.PropagationSpec{
		{ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}}},
		{ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "bank",
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Exists"}}}}}},
		{ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment"}}, Preemption: "Always"},
	} {
		data, err := json.Marshal(spec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "shop", "tier", "front")
		f.Add(data, "bank", "", "")
		f.Add(data, "", "app", "")
	}
	f.Fuzz(func(t *testing.T, data []byte, namespace, key, value string) {
		policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}}
		if json.Unmarshal(data, &policy.Spec) != nil {
			return
		}
		bounded.Run(t, func() { _ = policyv1alpha1.ValidatePropagation(policy) })
		subject := web
		subject.Namespace, subject.Labels = namespace, map[string]string{key: value}
		var rank Rank
		bounded.Run(t, func() { rank = Match(subject, policy) })
		if rank != RankNone && namespace != "shop" {
			t.Fatalf("a policy of namespace shop selects an object of %q %s", namespace, rank)
		}
		if again := Match(subject, policy); again != rank {
			t.Fatalf("selected %s, and %s the second time", rank, again)
		}
		decision := Choose(subject, []policyv1alpha1.Propagation{policy})
		if (decision.Winner != nil) != (rank != RankNone) {
			t.Fatalf("rank %s and winner %v disagree", rank, decision.Winner)
		}
	})
}
