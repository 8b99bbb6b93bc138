package decision

import (
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// Dimension is a property by which clusters form groups.
type Dimension struct {
	Name     string
	Min, Max int
	GroupOf  func(*Cluster) string
}

// ClusterBounds returns the least and most clusters to choose; 0 means no bound.
func ClusterBounds(constraints []policyv1alpha1.SpreadConstraint) (least, most int) {
	for i := range constraints {
		c := &constraints[i]
		if c.SpreadByLabel == "" && (c.SpreadByField == "" || c.SpreadByField == policyv1alpha1.SpreadByFieldCluster) {
			return max(c.MinGroups, 0), max(c.MaxGroups, 0)
		}
	}
	return 0, 0
}

// DimensionsOf lists the properties other than the cluster itself, the widest first.
func DimensionsOf(constraints []policyv1alpha1.SpreadConstraint) []Dimension {
	var out []Dimension
	add := func(name string, c *policyv1alpha1.SpreadConstraint, groupOf func(*Cluster) string) {
		out = append(out, Dimension{Name: name, Min: max(c.MinGroups, 1), Max: max(c.MaxGroups, 0), GroupOf: groupOf})
	}
	for _, field := range []policyv1alpha1.SpreadFieldValue{
		policyv1alpha1.SpreadByFieldProvider, policyv1alpha1.SpreadByFieldRegion, policyv1alpha1.SpreadByFieldZone,
	} {
		for i := range constraints {
			if c := &constraints[i]; c.SpreadByLabel == "" && c.SpreadByField == field {
				add(string(field), c, groupByField(field))
			}
		}
	}
	for i := range constraints {
		if c := &constraints[i]; c.SpreadByLabel != "" {
			key := c.SpreadByLabel
			add("label "+key, c, func(cluster *Cluster) string { return cluster.Labels[key] })
		}
	}
	return out
}

// groupByField returns the group of a cluster. Clusters that span several zones form a group with those that span the same ones.
func groupByField(field policyv1alpha1.SpreadFieldValue) func(*Cluster) string {
	switch field {
	case policyv1alpha1.SpreadByFieldProvider:
		return func(c *Cluster) string { return c.Provider }
	case policyv1alpha1.SpreadByFieldRegion:
		return func(c *Cluster) string { return c.Region }
	default:
		return func(c *Cluster) string { return c.zoneKey }
	}
}
