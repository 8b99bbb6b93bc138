package override

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// Target is what resource selectors read of an object.
type Target struct {
	APIVersion, Kind, Namespace, Name string
	Labels                            map[string]string
}

// TargetOf reads a Target off a whole object.
func TargetOf(object *unstructured.Unstructured) Target {
	return Target{object.GetAPIVersion(), object.GetKind(), object.GetNamespace(), object.GetName(), object.GetLabels()}
}

// Specificity is how precisely a policy selects an object; the more specific one is applied later.
type Specificity int

// Specificities, from not at all to by name.
const (
	Unselected Specificity = iota
	SelectedAsAny
	SelectedByLabel
	SelectedByName
)

// Selects returns whether, and how precisely, policy selects target. A policy without selectors is about everything in its reach:
// a namespaced one reaches its own namespace only. A label selector that does not parse selects nothing.
func Selects(policy policyv1alpha1.Override, target Target) Specificity {
	if ns := policy.GetNamespace(); ns != "" && ns != target.Namespace {
		return Unselected
	}
	selectors := policy.OverrideSpec().ResourceSelectors
	if len(selectors) == 0 {
		return SelectedAsAny
	}
	best := Unselected
	for i := range selectors {
		best = max(best, selects(&selectors[i], target))
	}
	return best
}

func selects(selector *policyv1alpha1.ResourceSelector, target Target) Specificity {
	if selector.APIVersion != target.APIVersion || selector.Kind != target.Kind {
		return Unselected
	}
	if selector.Namespace != "" && selector.Namespace != target.Namespace {
		return Unselected
	}
	if selector.Name != "" {
		if selector.Name == target.Name {
			return SelectedByName
		}
		return Unselected
	}
	if selector.LabelSelector == nil {
		return SelectedAsAny
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector.LabelSelector)
	if err != nil || !parsed.Matches(labels.Set(target.Labels)) {
		return Unselected
	}
	return SelectedByLabel
}

// inOrder keeps the policies that select target, in the order in which they take effect, and a verdict for the others.
func inOrder(target Target, policies []policyv1alpha1.Override) (ordered []policyv1alpha1.Override, dropped []Verdict) {
	specificities := map[policyv1alpha1.Override]Specificity{}
	for _, policy := range policies {
		if specificities[policy] = Selects(policy, target); specificities[policy] != Unselected {
			ordered = append(ordered, policy)
			continue
		}
		for rule := range Rules(policy) {
			dropped = append(dropped, Verdict{Policy: PolicyName(policy), Rule: rule, Reason: ReasonResourceUnselected})
		}
	}
	slices.SortStableFunc(ordered, func(a, b policyv1alpha1.Override) int {
		return cmp.Or(cmp.Compare(min(len(a.GetNamespace()), 1), min(len(b.GetNamespace()), 1)),
			cmp.Compare(specificities[a], specificities[b]), cmp.Compare(a.GetName(), b.GetName()))
	})
	return ordered, dropped
}

// Rules are the rules of a policy. The deprecated top-level form counts as one rule, and only where the rules are empty.
func Rules(policy policyv1alpha1.Override) []policyv1alpha1.RuleWithCluster {
	spec := policy.OverrideSpec()
	if len(spec.OverrideRules) > 0 {
		return spec.OverrideRules
	}
	//lint:ignore SA1019 The deprecated form is still part of the API.
	return []policyv1alpha1.RuleWithCluster{{TargetCluster: spec.TargetCluster, Overriders: spec.Overriders}}
}

// PolicyName names a policy as errors and verdicts do: "namespace/name", or "name" for a cluster-scoped one.
func PolicyName(policy policyv1alpha1.Override) string {
	return strings.TrimPrefix(policy.GetNamespace()+"/"+policy.GetName(), "/")
}
