package capacity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// claim is which nodes a pod can run on, compiled once for all clusters. Nil is a pod without selector, affinity and tolerations.
type claim struct {
	source   *workv1alpha2.NodeClaim
	required nodeaffinity.RequiredNodeAffinity
	// selects is true if labels or names of nodes matter.
	selects bool
}

func claimOf(source *workv1alpha2.NodeClaim) *claim {
	if source == nil {
		return nil
	}
	affinity := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: source.HardNodeAffinity}}
	return &claim{
		source: source, required: nodeaffinity.NewRequiredNodeAffinity(source.NodeSelector, affinity),
		selects: len(source.NodeSelector) > 0 || source.HardNodeAffinity != nil,
	}
}

// allows returns whether a pod can run on a node, apart from the resources of the node. What cannot be parsed matches no node, as in a
// member.
func (c *claim) allows(node *corev1.Node) bool {
	var tolerations []corev1.Toleration
	if c != nil {
		tolerations = c.source.Tolerations
		if matches, err := c.required.Match(node); err != nil || !matches {
			return false
		}
	}
	if len(node.Spec.Taints) == 0 {
		return true
	}
	_, untolerated := schedulingcorev1.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, tolerations, hinders, true)
	return !untolerated
}

// hinders returns whether a taint keeps pods off a node.
func hinders(t *corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
}

// relaxed is the claim for nodes of which some values of labels, or the names, are omitted: requirements on these count as met.
func (c *claim) relaxed(n *Nodes) *claim {
	if c == nil || !c.selects || !n.omittedNames && len(n.omitted) == 0 {
		return c
	}
	changed := false
	out := &workv1alpha2.NodeClaim{Tolerations: c.source.Tolerations, NodeSelector: map[string]string{}}
	for key, value := range c.source.NodeSelector {
		if n.omitted.Has(key) {
			changed = true
			continue
		}
		out.NodeSelector[key] = value
	}
	if hard := c.source.HardNodeAffinity; hard != nil {
		out.HardNodeAffinity = &corev1.NodeSelector{}
		for _, term := range hard.NodeSelectorTerms {
			term, relaxed := n.relax(term)
			changed = changed || relaxed
			out.HardNodeAffinity.NodeSelectorTerms = append(out.HardNodeAffinity.NodeSelectorTerms, term)
		}
	}
	if !changed {
		return c
	}
	return claimOf(out)
}

// relax returns a term without its requirements on what is omitted, and whether it had any.
func (n *Nodes) relax(term corev1.NodeSelectorTerm) (relaxed corev1.NodeSelectorTerm, changed bool) {
	valued := func(r corev1.NodeSelectorRequirement) bool {
		return n.omitted.Has(r.Key) && r.Operator != corev1.NodeSelectorOpExists && r.Operator != corev1.NodeSelectorOpDoesNotExist
	}
	if !slices.ContainsFunc(term.MatchExpressions, valued) && !(n.omittedNames && len(term.MatchFields) > 0) {
		return term, false
	}
	relaxed.MatchExpressions = slices.DeleteFunc(slices.Clone(term.MatchExpressions), valued)
	if !n.omittedNames {
		relaxed.MatchFields = term.MatchFields
	}
	if len(relaxed.MatchExpressions)+len(relaxed.MatchFields) == 0 {
		// A term without requirements would match no node. This one matches every node.
		relaxed.MatchExpressions = []corev1.NodeSelectorRequirement{{Key: omittedKey, Operator: corev1.NodeSelectorOpDoesNotExist}}
	}
	return relaxed, true
}

// omittedKey is the key of a label that no node has: the group is reserved for the control plane.
const omittedKey = "fleet.flagship.io/omitted"
