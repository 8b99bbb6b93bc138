package affinity

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// Changes returns what to change for an affinity to select a cluster, in words; nil if it selects it, or if no small change is known.
// Path is where a user finds the affinity. Each change is made on a copy of the affinity or the cluster, until [Compile] selects it.
func Changes(path string, affinity *policyv1alpha1.ClusterAffinity, cluster Cluster) []string {
	if affinity == nil {
		return nil
	}
	changed := affinity.DeepCopy()
	if cluster.Labels = maps.Clone(cluster.Labels); cluster.Labels == nil {
		cluster.Labels = labels.Set{}
	}
	var changes []string
	for range Parts {
		selector, err := Compile(path, changed)
		if err != nil {
			return nil
		}
		switch selector.Mismatch(&cluster) {
		case None:
			return changes
		case Exclude:
			changed.ExcludeClusters = slices.DeleteFunc(changed.ExcludeClusters, func(name string) bool { return name == cluster.Name })
			changes = append(changes, fmt.Sprintf("remove %s from %s.exclude", cluster.Name, path))
		case Names:
			changed.ClusterNames = append(changed.ClusterNames, cluster.Name)
			changes = append(changes, fmt.Sprintf("add %s to %s.clusterNames", cluster.Name, path))
		case Labels:
			changes = append(changes, label(changed.LabelSelector, cluster.Labels)...)
		case Fields:
			changes = append(changes, place(changed.FieldSelector, &cluster)...)
		}
	}
	return nil
}

// label gives a cluster the labels that a selector requires.
func label(selector *metav1.LabelSelector, has labels.Set) (changes []string) {
	set := func(key, value string) {
		has[key] = value
		changes = append(changes, "label the cluster "+key+"="+value)
	}
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		if value := selector.MatchLabels[key]; !has.Has(key) || has[key] != value {
			set(key, value)
		}
	}
	for _, e := range selector.MatchExpressions {
		switch {
		case e.Operator == metav1.LabelSelectorOpIn && !slices.Contains(e.Values, has[e.Key]) && len(e.Values) > 0:
			set(e.Key, e.Values[0])
		case e.Operator == metav1.LabelSelectorOpExists && !has.Has(e.Key):
			set(e.Key, "")
		case e.Operator == metav1.LabelSelectorOpNotIn && has.Has(e.Key) && slices.Contains(e.Values, has[e.Key]),
			e.Operator == metav1.LabelSelectorOpDoesNotExist && has.Has(e.Key):
			delete(has, e.Key)
			changes = append(changes, "remove the label "+e.Key+" of the cluster")
		}
	}
	return changes
}

// place gives a cluster the fields that a selector requires. What a field must not be has no small change.
func place(selector *policyv1alpha1.FieldSelector, cluster *Cluster) (changes []string) {
	for _, e := range selector.MatchExpressions {
		if f := (field{key: e.Key, values: e.Values, negate: e.Operator == corev1.NodeSelectorOpNotIn}); f.negate || f.holds(cluster) || len(e.Values) == 0 {
			continue
		}
		value := e.Values[0]
		switch e.Key {
		case policyv1alpha1.ProviderField:
			cluster.Provider = value
		case policyv1alpha1.RegionField:
			cluster.Region = value
		default:
			cluster.Zones = append(slices.Clone(cluster.Zones), value)
		}
		changes = append(changes, fmt.Sprintf("set the %s of the cluster to %s", e.Key, value))
	}
	return changes
}
