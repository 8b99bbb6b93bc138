package taintpolicies

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/affinity"
)

// identity is what a taint of a cluster is known by: a cluster has one taint of each.
type identity struct {
	key    string
	effect corev1.TaintEffect
}

// change is the taint that a cluster is to have, or nil if it is to have none of that identity.
type change struct {
	identity
	taint *corev1.Taint
}

// desired returns the taints of a cluster as its policies require. Of several policies for a taint the newest one whose conditions
// match counts; in one policy removal counts. So the result depends on the conditions only, not on the taints that earlier
// evaluations left, and two policies that differ do not alternate. Taints that no policy adds or removes stay as they are. A policy
// that cannot be read is an error, and the others count.
func desired(cluster *clusterv1alpha1.Cluster, policies []policyv1alpha1.ClusterTaintPolicy, now metav1.Time) ([]corev1.Taint, error) {
	changes, err := changesFor(cluster, policies)
	taints := slices.Clone(cluster.Spec.Taints)
	for _, c := range changes {
		at := slices.IndexFunc(taints, func(t corev1.Taint) bool { return identityOf(t) == c.identity })
		switch {
		case c.taint == nil && at >= 0:
			taints = slices.Delete(taints, at, at+1)
		case c.taint == nil:
		case at >= 0:
			taints[at].Value = c.taint.Value // it keeps the time from which tolerations count
		default:
			taint := *c.taint
			taint.TimeAdded = &now
			taints = append(taints, taint)
		}
	}
	return taints, err
}

func identityOf(t corev1.Taint) identity { return identity{t.Key, t.Effect} }

// changesFor returns one change for each taint of the policies whose conditions match.
func changesFor(cluster *clusterv1alpha1.Cluster, policies []policyv1alpha1.ClusterTaintPolicy) ([]change, error) {
	var changes []change
	set := func(id identity, taint *corev1.Taint) {
		if clusterv1alpha1.IsConditionTaint(id.key, id.effect) {
			return
		}
		if at := slices.IndexFunc(changes, func(c change) bool { return c.identity == id }); at >= 0 {
			changes[at].taint = taint
			return
		}
		changes = append(changes, change{id, taint})
	}
	subject := affinity.Of(cluster)
	var faults []error
	for _, policy := range slices.SortedFunc(slices.Values(policies), byAge) {
		selector, err := affinity.Compile("spec.targetClusters", policy.Spec.TargetClusters)
		if err != nil {
			faults = append(faults, fmt.Errorf("ClusterTaintPolicy %s: %w", policy.Name, err))
			continue
		}
		if selector.Mismatch(&subject) != affinity.None {
			continue
		}
		adds, removes := match(cluster, policy.Spec.AddOnConditions), match(cluster, policy.Spec.RemoveOnConditions)
		for _, t := range policy.Spec.Taints {
			if adds {
				set(identity{t.Key, t.Effect}, &corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
			}
			if removes {
				set(identity{t.Key, t.Effect}, nil)
			}
		}
	}
	return changes, errors.Join(faults...)
}

// byAge orders policies by their creation.
func byAge(a, b policyv1alpha1.ClusterTaintPolicy) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// match returns whether all conditions match; none never do, nor does a condition that the cluster lacks.
func match(cluster *clusterv1alpha1.Cluster, conditions []policyv1alpha1.MatchCondition) bool {
	for _, c := range conditions {
		found := meta.FindStatusCondition(cluster.Status.Conditions, c.ConditionType)
		if found == nil || slices.Contains(c.StatusValues, found.Status) != (c.Operator == policyv1alpha1.MatchConditionOpIn) {
			return false
		}
	}
	return len(conditions) > 0
}
