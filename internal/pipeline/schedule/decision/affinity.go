package decision

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// Selector is a compiled ClusterAffinity. The nil selector selects every cluster.
type Selector struct {
	excluded map[string]struct{}
	names    map[string]struct{}
	pairs    []labelPair     // matchLabels, the common case
	labels   labels.Selector // matchExpressions
	fields   []fieldRequirement

	byExclude, byNames, byLabels, byFields *Reason
}

type labelPair struct{ key, value string }

type fieldRequirement struct {
	key    string
	values []string
	negate bool
}

// CompileAffinity makes a selector of affinity; path names it in reasons, as a user
// would find it in the placement. No affinity gives the nil selector.
func CompileAffinity(path string, affinity *policyv1alpha1.ClusterAffinity) (*Selector, error) {
	if affinity == nil {
		return nil, nil
	}
	s := &Selector{
		excluded:  NameSet(affinity.ExcludeClusters),
		names:     NameSet(affinity.ClusterNames),
		byExclude: same("excluded by " + path + ".exclude"),
		byNames:   &Reason{"is not in " + path + ".clusterNames", "are not in " + path + ".clusterNames"},
		byLabels:  &Reason{"does not match " + path + ".labelSelector", "do not match " + path + ".labelSelector"},
		byFields:  &Reason{"does not match " + path + ".fieldSelector", "do not match " + path + ".fieldSelector"},
	}
	if err := s.compileLabels(affinity.LabelSelector); err != nil {
		return nil, fmt.Errorf("reading %s.labelSelector: %w", path, err)
	}
	if affinity.FieldSelector == nil {
		return s, nil
	}
	for _, e := range affinity.FieldSelector.MatchExpressions {
		f, err := compileField(e)
		if err != nil {
			return nil, fmt.Errorf("reading %s.fieldSelector: %w", path, err)
		}
		s.fields = append(s.fields, f)
	}
	return s, nil
}

func (s *Selector) compileLabels(l *metav1.LabelSelector) error {
	if l == nil {
		return nil
	}
	for key, value := range l.MatchLabels {
		s.pairs = append(s.pairs, labelPair{key, value})
	}
	if len(l.MatchExpressions) == 0 {
		return nil
	}
	var err error
	s.labels, err = metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: l.MatchExpressions})
	return err
}

func compileField(e corev1.NodeSelectorRequirement) (fieldRequirement, error) {
	switch e.Key {
	case policyv1alpha1.ProviderField, policyv1alpha1.RegionField, policyv1alpha1.ZoneField:
	default:
		return fieldRequirement{}, fmt.Errorf("key %q is none of provider, region, zone", e.Key)
	}
	switch e.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
	default:
		return fieldRequirement{}, fmt.Errorf("operator %q is neither In nor NotIn", e.Operator)
	}
	return fieldRequirement{key: e.Key, values: e.Values, negate: e.Operator == corev1.NodeSelectorOpNotIn}, nil
}

func NameSet(names []string) map[string]struct{} {
	if len(names) == 0 {
		return nil
	}
	set := make(map[string]struct{}, len(names))
	for _, name := range names {
		set[name] = struct{}{}
	}
	return set
}

// Drops returns why s does not select c, or nil if it does.
func (s *Selector) Drops(c *Cluster) *Reason {
	if s == nil {
		return nil
	}
	if s.excluded != nil {
		if _, ok := s.excluded[c.Name]; ok {
			return s.byExclude
		}
	}
	for i := range s.pairs {
		if value, ok := c.Labels[s.pairs[i].key]; !ok || value != s.pairs[i].value {
			return s.byLabels
		}
	}
	if s.labels != nil && !s.labels.Matches(c.Labels) {
		return s.byLabels
	}
	for i := range s.fields {
		if !s.fields[i].holds(c) {
			return s.byFields
		}
	}
	if s.names != nil {
		if _, ok := s.names[c.Name]; !ok {
			return s.byNames
		}
	}
	return nil
}

// holds checks one field. A cluster with several zones is in a set if any of them is.
func (f *fieldRequirement) holds(c *Cluster) bool {
	var listed bool
	switch f.key {
	case policyv1alpha1.ProviderField:
		listed = slices.Contains(f.values, c.Provider)
	case policyv1alpha1.RegionField:
		listed = slices.Contains(f.values, c.Region)
	default:
		listed = slices.ContainsFunc(c.Zones, func(zone string) bool { return slices.Contains(f.values, zone) })
	}
	return listed != f.negate
}

// tiers are the base affinity of a term, then its overflow affinities.
type tiers struct {
	Selectors []*Selector
	noTier    *Reason
}

func CompileTerm(t Term) (tiers, error) {
	base, err := CompileAffinity(t.path(), t.Affinity)
	if err != nil {
		return tiers{}, err
	}
	out := tiers{Selectors: []*Selector{base}}
	if len(t.Overflow) > 0 {
		out.noTier = &Reason{"is in no tier of " + t.path(), "are in no tier of " + t.path()}
	}
	for i := range t.Overflow {
		o := &t.Overflow[i]
		s, err := CompileAffinity(fmt.Sprintf("%s.overflowAffinities[%s]", t.path(), o.AffinityName), &o.ClusterAffinity)
		if err != nil {
			return tiers{}, err
		}
		out.Selectors = append(out.Selectors, s)
	}
	return out, nil
}

// Of returns the first tier that c belongs to, or why it belongs to none.
func (t *tiers) Of(c *Cluster) (int, *Reason) {
	reason := t.Selectors[0].Drops(c)
	if reason == nil {
		return 0, nil
	}
	for i, s := range t.Selectors[1:] {
		if s.Drops(c) == nil {
			return i + 1, nil
		}
	}
	if t.noTier != nil {
		return 0, t.noTier
	}
	return 0, reason
}
