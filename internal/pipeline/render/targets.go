package render

import (
	"maps"
	"slices"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// target is one cluster that is to have a Work.
type target struct {
	workv1alpha2.TargetCluster
	// scheduled is false for a cluster that is only wanted by a binding that depends on this one: then the template's
	// own number of replicas stays.
	scheduled bool
}

// plan says what should be where, as far as the binding alone can tell.
type plan struct {
	targets []target
	// draining are clusters whose Work stays as it is until its eviction ends.
	draining map[string]bool
	// purging are clusters whose Work has to be gone before any other is written.
	purging map[string]bool
	// paused says whether nothing is to happen in a cluster: what is there stays, wanted or not.
	paused func(cluster string) bool
	// mayDelete is false while the lack of targets may only mean that nobody has chosen any yet.
	mayDelete bool
}

func planFor(binding workv1alpha2.Binding) plan {
	spec := binding.BindingSpec()
	p := plan{targets: targetsOf(spec), draining: map[string]bool{}, purging: map[string]bool{}}
	p.paused = func(cluster string) bool { return suspends(spec, cluster) }
	for i := range spec.GracefulEvictionTasks {
		task := &spec.GracefulEvictionTasks[i]
		if task.PurgeMode == policyv1alpha1.PurgeModeDirectly {
			p.purging[task.FromCluster] = true
		} else {
			p.draining[task.FromCluster] = true
		}
	}
	for _, t := range p.targets {
		delete(p.purging, t.Name)
		delete(p.draining, t.Name)
	}
	p.mayDelete = mayDelete(binding)
	return p
}

// mayDelete is the field of plan.
func mayDelete(binding workv1alpha2.Binding) bool {
	spec := binding.BindingSpec()
	return len(spec.Clusters) > 0 || spec.Placement == nil || binding.BindingStatus().SchedulerObservedGeneration > 0
}

// wants says whether a cluster may keep its Work.
func (p plan) wants(cluster string) bool {
	return p.draining[cluster] || p.paused(cluster) || slices.ContainsFunc(p.targets, func(t target) bool { return t.Name == cluster })
}

// targetsOf joins the clusters that were chosen with those that dependants are in, each once and in that order.
func targetsOf(spec *workv1alpha2.ResourceBindingSpec) []target {
	targets := make([]target, 0, len(spec.Clusters))
	seen := make(map[string]bool, len(spec.Clusters))
	add := func(cluster workv1alpha2.TargetCluster, scheduled bool) {
		if !seen[cluster.Name] {
			seen[cluster.Name] = true
			targets = append(targets, target{cluster, scheduled})
		}
	}
	for _, cluster := range spec.Clusters {
		add(cluster, true)
	}
	for _, snapshot := range spec.RequiredBy {
		for _, cluster := range snapshot.Clusters {
			add(cluster, false)
		}
	}
	return targets
}

// isWorkload says whether the number of replicas in each cluster is ours to set.
func isWorkload(spec *workv1alpha2.ResourceBindingSpec) bool {
	return spec.Replicas > 0 || spec.ReplicaRequirements != nil
}

func isDivided(spec *workv1alpha2.ResourceBindingSpec) bool {
	return spec.Placement != nil && spec.Placement.ReplicaScheduling != nil &&
		spec.Placement.ReplicaScheduling.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDivided
}

// awaitsScheduler says that the targets are of an older spec and new ones are about to follow. Rendering now would write
// the new template with the old numbers, and every Work once more a moment later. Where the scheduler finds no better
// answer it says so by observing the generation, and that ends the wait too.
func awaitsScheduler(binding workv1alpha2.Binding) bool {
	spec := binding.BindingSpec()
	if spec.Placement == nil || !isWorkload(spec) || len(spec.Clusters) == 0 {
		return false
	}
	if spec.Suspension != nil && spec.Suspension.Scheduling != nil && *spec.Suspension.Scheduling {
		return false
	}
	if binding.BindingStatus().SchedulerObservedGeneration >= binding.GetGeneration() {
		return false
	}
	var sum int32
	for _, cluster := range spec.Clusters {
		if !isDivided(spec) && cluster.Replicas != spec.Replicas {
			return true
		}
		sum += cluster.Replicas
	}
	return isDivided(spec) && sum != spec.Replicas
}

// suspends says whether nothing is to be written to the cluster.
func suspends(spec *workv1alpha2.ResourceBindingSpec, cluster string) bool {
	if spec.Suspension == nil {
		return false
	}
	if spec.Suspension.Dispatching != nil && *spec.Suspension.Dispatching {
		return true
	}
	listed := spec.Suspension.DispatchingOnClusters
	return listed != nil && slices.Contains(listed.ClusterNames, cluster)
}

// preservedState returns the labels that carry an application's state into the cluster it was moved to: only in the
// case of a single copy that was removed before its successor starts, and that starts somewhere new.
func preservedState(spec *workv1alpha2.ResourceBindingSpec, targets int, cluster string) map[string]string {
	if targets != 1 || len(spec.GracefulEvictionTasks) == 0 {
		return nil
	}
	newest := &spec.GracefulEvictionTasks[len(spec.GracefulEvictionTasks)-1]
	if newest.PurgeMode != policyv1alpha1.PurgeModeDirectly || slices.Contains(newest.ClustersBeforeFailover, cluster) {
		return nil
	}
	state := maps.Clone(newest.PreservedLabelState)
	maps.DeleteFunc(state, func(key, _ string) bool { return workv1alpha1.IsOwnershipKey(key) })
	return state
}
