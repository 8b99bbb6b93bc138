package eviction

import (
	"slices"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Returned is where an object is after it has returned. Replicas that are divided are taken from clusters that took over first, from
// the largest first; otherwise one of those clusters makes way.
func Returned(current []workv1alpha2.TargetCluster, returns []Return, replicas int32, divided bool) []workv1alpha2.TargetCluster {
	out := slices.Clone(current)
	for _, r := range returns {
		newcomer := func(t workv1alpha2.TargetCluster) bool { return !slices.Contains(r.Before, t.Name) }
		if !divided {
			if at := slices.IndexFunc(out, newcomer); at >= 0 {
				out = slices.Delete(out, at, at+1)
			}
			out = append(out, workv1alpha2.TargetCluster{Name: r.Cluster, Replicas: r.Replicas})
			continue
		}
		take := min(r.Replicas, replicas)
		excess := take - replicas
		for _, t := range out {
			excess += t.Replicas
		}
		for excess > 0 {
			from, all := largest(out, newcomer), true
			if from < 0 {
				from, all = largest(out, func(workv1alpha2.TargetCluster) bool { return true }), false
			}
			n := out[from].Replicas
			if !all {
				n = (n + 1) / 2 // so that the others keep about the same
			}
			n = min(n, excess)
			out[from].Replicas, excess = out[from].Replicas-n, excess-n
		}
		out = slices.DeleteFunc(out, func(t workv1alpha2.TargetCluster) bool { return t.Replicas == 0 })
		out = append(out, workv1alpha2.TargetCluster{Name: r.Cluster, Replicas: take})
	}
	return out
}

// largest returns which of the targets that may give replicas has the most; -1 if none has any.
func largest(targets []workv1alpha2.TargetCluster, may func(workv1alpha2.TargetCluster) bool) int {
	at := -1
	for i, t := range targets {
		if t.Replicas > 0 && may(t) && (at < 0 || t.Replicas > targets[at].Replicas) {
			at = i
		}
	}
	return at
}
