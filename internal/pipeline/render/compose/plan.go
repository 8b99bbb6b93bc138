package compose

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
)

// Target is one cluster that is to have a Work.
type Target struct {
	workv1alpha2.TargetCluster
	// Scheduled is false for a cluster that only a binding which depends on this one goes to: the template's replicas stay then.
	Scheduled bool
}

// Plan is what should be in which cluster, as far as it follows from the binding.
type Plan struct {
	Targets []Target
	// draining are clusters whose Work stays as it is until its eviction ends, or that the object returns to.
	draining map[string]bool
	// Purging are clusters whose Work has to be gone before any other is written.
	Purging map[string]bool
	// paused returns whether nothing is written in a cluster: what is there stays, whether it is a target or not.
	paused func(cluster string) bool
	// MayDelete is false while the scheduler may not have chosen the targets yet.
	MayDelete bool
}

// PlanFor returns the plan of a binding.
func PlanFor(binding workv1alpha2.Binding) Plan {
	spec := binding.BindingSpec()
	p := Plan{Targets: TargetsOf(spec), draining: map[string]bool{}, Purging: map[string]bool{}}
	p.paused = func(cluster string) bool { return suspends(spec, cluster) }
	for i := range spec.GracefulEvictionTasks {
		task := &spec.GracefulEvictionTasks[i]
		if task.PurgeMode == policyv1alpha1.PurgeModeDirectly {
			p.Purging[task.FromCluster] = true
		} else {
			p.draining[task.FromCluster] = true
		}
	}
	for _, r := range eviction.Returns(binding) { // the scheduler is about to choose it again
		p.draining[r.Cluster] = true
	}
	for _, t := range p.Targets {
		delete(p.Purging, t.Name)
		delete(p.draining, t.Name)
	}
	p.MayDelete = MayDelete(binding)
	return p
}

// MayDelete returns the field of the plan of a binding.
func MayDelete(binding workv1alpha2.Binding) bool {
	spec := binding.BindingSpec()
	return len(spec.Clusters) > 0 || spec.Placement == nil || binding.BindingStatus().SchedulerObservedGeneration > 0
}

// Keeps returns whether a cluster may keep its Work.
func (p Plan) Keeps(cluster string) bool {
	return p.draining[cluster] || p.paused(cluster) || slices.ContainsFunc(p.Targets, func(t Target) bool { return t.Name == cluster })
}

// TargetsOf joins the clusters that were chosen with those of dependants, each once and in that order.
func TargetsOf(spec *workv1alpha2.ResourceBindingSpec) []Target {
	targets := make([]Target, 0, len(spec.Clusters))
	seen := make(map[string]bool, len(spec.Clusters))
	add := func(cluster workv1alpha2.TargetCluster, scheduled bool) {
		if !seen[cluster.Name] {
			seen[cluster.Name] = true
			targets = append(targets, Target{cluster, scheduled})
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

// isWorkload returns whether the replicas in each cluster follow from the binding.
func isWorkload(spec *workv1alpha2.ResourceBindingSpec) bool {
	return spec.Replicas > 0 || spec.ReplicaRequirements != nil
}

func isDivided(spec *workv1alpha2.ResourceBindingSpec) bool {
	return spec.Placement != nil && spec.Placement.ReplicaScheduling != nil &&
		spec.Placement.ReplicaScheduling.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDivided
}

// AwaitsScheduler returns whether the targets are those of an older spec. Rendering now would write the new template with the old
// numbers, and every Work once more a moment later. A scheduler that changes nothing sets the generation that it observed, which
// ends the wait, too.
func AwaitsScheduler(binding workv1alpha2.Binding) bool {
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

// suspends returns whether nothing is to be written to the cluster.
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

// Unwanted returns the Works in clusters that the binding does not name.
func (p Plan) Unwanted(works []*workv1alpha1.Work) []*workv1alpha1.Work {
	if !p.MayDelete {
		return nil
	}
	var unwanted []*workv1alpha1.Work
	for _, work := range works {
		cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
		if ok && !p.Keeps(cluster) {
			unwanted = append(unwanted, work)
		}
	}
	return unwanted
}

// Draining returns until when Works stay at the latest, of clusters whose eviction has not ended. Timeout is that of evictions that have
// none. One that a person ends, ends at once.
func (p Plan) Draining(spec *workv1alpha2.ResourceBindingSpec, now time.Time, timeout time.Duration) map[string]time.Time {
	until := make(map[string]time.Time, len(p.draining))
	for cluster := range p.draining {
		until[cluster] = now.Add(timeout)
		if task := eviction.Find(spec, cluster); task != nil && task.SuppressDeletion == nil {
			until[cluster] = eviction.Deadline(task, timeout, now)
		} else if task != nil {
			until[cluster] = now
		}
	}
	return until
}

// FencePause is the pause between two reconciles of a binding that awaits the end of a copy, which a person may confirm.
const FencePause = 5 * time.Second

// AwaitsEnd returns whether nothing is written for an exclusive binding, since a copy in a cluster that it leaves may still run: its Work
// is there, and no person has confirmed that the cluster is fenced.
func (p Plan) AwaitsEnd(binding workv1alpha2.Binding, works []*workv1alpha1.Work, get func(name string, cluster *clusterv1alpha1.Cluster) error) (bool, error) {
	if !eviction.IsExclusive(binding) {
		return false, nil
	}
	for _, work := range works {
		name, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
		if !ok || slices.ContainsFunc(p.Targets, func(t Target) bool { return t.Name == name }) {
			continue
		}
		cluster := &clusterv1alpha1.Cluster{}
		switch err := get(name, cluster); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return false, fmt.Errorf("reading cluster %s: %w", name, err)
		case !clusterv1alpha1.IsFenced(cluster):
			return true, nil
		}
	}
	return false, nil
}

// KeptReplicas returns the replicas of a target while the binding returns to another cluster: none are taken away before the copy there
// is healthy, as far as the replicas of the present Work are those of spec.replicas.
func KeptReplicas(q Request) int32 {
	spec, replicas := q.Binding.BindingSpec(), q.Target.Replicas
	returns := eviction.Returns(q.Binding)
	if len(returns) == 0 || q.Existing == nil || !q.Target.Scheduled || !isDivided(spec) ||
		slices.ContainsFunc(returns, func(r eviction.Return) bool { return r.Cluster == q.Target.Name }) {
		return replicas
	}
	for _, m := range q.Existing.Spec.Workload.Manifests {
		var present struct {
			Spec struct {
				Replicas int32 `json:"replicas"`
			} `json:"spec"`
		}
		if json.Unmarshal(m.Raw, &present) == nil {
			replicas = max(replicas, min(present.Spec.Replicas, spec.Replicas))
		}
	}
	return replicas
}

// AwaitsPurge returns whether one of the Works that are being deleted has to be gone before others are written.
func (p Plan) AwaitsPurge(deleted []*workv1alpha1.Work) bool {
	return slices.ContainsFunc(deleted, func(work *workv1alpha1.Work) bool {
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
		return p.Purging[cluster]
	})
}

// PurgesDirectly returns whether a policy has copies removed at once in a cluster that the binding leaves.
func PurgesDirectly(binding workv1alpha2.Binding) bool {
	return eviction.IsExclusive(binding) || binding.GetAnnotations()[policyv1alpha1.PurgeModeAnnotation] == string(policyv1alpha1.PurgeModeDirectly)
}

// Arrived returns whether every target has a healthy copy, and all of them together as many replicas as desired.
func (p Plan) Arrived(spec *workv1alpha2.ResourceBindingSpec, works []*workv1alpha1.Work) bool {
	healthy := map[string]bool{}
	for _, work := range works {
		healthy[work.Namespace] = healthy[work.Namespace] || isHealthy(work)
	}
	var replicas int32
	for _, t := range p.Targets {
		if !healthy[workv1alpha1.ExecutionNamespace(t.Name)] {
			return false
		}
		replicas += t.Replicas
	}
	return !isDivided(spec) || !isWorkload(spec) || replicas >= spec.Replicas
}

// isHealthy returns whether the present objects of a Work are applied and healthy in its member.
func isHealthy(work *workv1alpha1.Work) bool {
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied)
	progressing := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkProgressing)
	if work.DeletionTimestamp != nil || isTrue(work.Spec.SuspendDispatching) ||
		applied == nil || applied.Status != "True" || applied.ObservedGeneration < work.Generation ||
		progressing == nil || progressing.ObservedGeneration < work.Generation {
		return false
	}
	// What nothing reports about never ends its rollout: there is nothing to wait for, as long as the member shows that it has it.
	silent := func(s workv1alpha1.ManifestStatus) bool { return isSilent(work, s) }
	if progressing.Status != "False" && !slices.ContainsFunc(work.Status.ManifestStatuses, silent) {
		return false
	}
	return len(work.Status.ManifestStatuses) > 0 && !slices.ContainsFunc(work.Status.ManifestStatuses, func(s workv1alpha1.ManifestStatus) bool {
		return s.Health != workv1alpha1.ResourceHealthy && !silent(s)
	})
}

// isSilent returns whether the member has an object, and nothing there reports a status of it.
func isSilent(work *workv1alpha1.Work, s workv1alpha1.ManifestStatus) bool {
	return s.Health == workv1alpha1.ResourceUnknown && workv1alpha1.HasNoStatus(s.Status) && meta.IsStatusConditionTrue(work.Status.Conditions, workv1alpha1.WorkAvailable)
}
