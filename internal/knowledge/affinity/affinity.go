package affinity

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// Cluster is what a selector reads of a cluster.
type Cluster struct {
	Name             string
	Labels           labels.Set
	Provider, Region string
	// Zones are sorted; the deprecated single zone counts if there is no list.
	Zones []string
}

// Of reads a Cluster.
func Of(c *clusterv1alpha1.Cluster) Cluster {
	zones := slices.Sorted(slices.Values(c.Spec.Zones))
	//lint:ignore SA1019 a cluster that was never admitted anew may only have the old field
	if zone := c.Spec.Zone; len(zones) == 0 && zone != "" {
		zones = []string{zone}
	}
	return Cluster{Name: c.Name, Labels: c.Labels, Provider: c.Spec.Provider, Region: c.Spec.Region, Zones: zones}
}

// Selector is a compiled ClusterAffinity. The nil selector selects every cluster.
type Selector struct {
	excluded, names sets.Set[string]
	pairs           []pair          // matchLabels, the common case
	labels          labels.Selector // matchExpressions
	fields          []field
}

type pair struct{ key, value string }

type field struct {
	key    string
	values []string
	negate bool
}

// Compile makes a selector of an affinity; nil gives the nil selector. Path names the affinity in errors.
func Compile(path string, affinity *policyv1alpha1.ClusterAffinity) (*Selector, error) {
	if affinity == nil {
		return nil, nil
	}
	s := &Selector{excluded: sets.New(affinity.ExcludeClusters...), names: sets.New(affinity.ClusterNames...)}
	if l := affinity.LabelSelector; l != nil {
		for key, value := range l.MatchLabels {
			s.pairs = append(s.pairs, pair{key, value})
		}
		if len(l.MatchExpressions) > 0 {
			var err error
			if s.labels, err = metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: l.MatchExpressions}); err != nil {
				return nil, fmt.Errorf("reading %s.labelSelector: %w", path, err)
			}
		}
	}
	if affinity.FieldSelector == nil {
		return s, nil
	}
	for _, e := range affinity.FieldSelector.MatchExpressions {
		switch e.Key {
		case policyv1alpha1.ProviderField, policyv1alpha1.RegionField, policyv1alpha1.ZoneField:
		default:
			return nil, fmt.Errorf("reading %s.fieldSelector: key %q is none of provider, region, zone", path, e.Key)
		}
		if e.Operator != corev1.NodeSelectorOpIn && e.Operator != corev1.NodeSelectorOpNotIn {
			return nil, fmt.Errorf("reading %s.fieldSelector: operator %q is neither In nor NotIn", path, e.Operator)
		}
		s.fields = append(s.fields, field{key: e.Key, values: e.Values, negate: e.Operator == corev1.NodeSelectorOpNotIn})
	}
	return s, nil
}

// Part is a field of an affinity.
type Part int

// Parts, in the order in which they are compared.
const (
	None Part = iota
	Exclude
	Labels
	Fields
	Names
	Parts // how many there are
)

// Mismatch is the first part of the affinity that drops a cluster, None if the affinity selects it. It is called for every cluster.
func (s *Selector) Mismatch(c *Cluster) Part {
	if s == nil {
		return None
	}
	if len(s.excluded) > 0 && s.excluded.Has(c.Name) {
		return Exclude
	}
	for i := range s.pairs {
		if value, ok := c.Labels[s.pairs[i].key]; !ok || value != s.pairs[i].value {
			return Labels
		}
	}
	if s.labels != nil && !s.labels.Matches(c.Labels) {
		return Labels
	}
	for i := range s.fields {
		if !s.fields[i].holds(c) {
			return Fields
		}
	}
	if len(s.names) > 0 && !s.names.Has(c.Name) {
		return Names
	}
	return None
}

// holds checks one field. A cluster with several zones is in a set if any of them is.
func (f *field) holds(c *Cluster) bool {
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
