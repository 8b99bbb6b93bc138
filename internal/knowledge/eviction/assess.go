package eviction

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Why is the reason of a verdict on a task.
type Why string

// Why a task is finished.
const (
	// Requested: suppressDeletion is false.
	Requested Why = "Requested"
	// Replaced: every copy elsewhere is healthy.
	Replaced Why = "Replaced"
	// Expired: the grace period is over.
	Expired Why = "Expired"
)

// Why a task is kept.
const (
	// Suppressed: suppressDeletion is true.
	Suppressed Why = "Suppressed"
	// NothingFits: the cluster is still a target, since the scheduler found no other place.
	NothingFits Why = "NothingFits"
	// AwaitsCopies: not all copies elsewhere are healthy yet.
	AwaitsCopies Why = "AwaitsCopies"
	// LastCopy: no copy elsewhere is healthy though the grace period is over, or there is no other place at all; this one may be
	// healthy.
	LastCopy Why = "LastCopy"
	// AwaitsEnd: nothing else is written until the end of this copy is confirmed.
	AwaitsEnd Why = "AwaitsEnd"
)

// Verdict is what Assess returns for one task.
type Verdict struct {
	Task   workv1alpha2.GracefulEvictionTask
	Finish bool
	Why    Why
	// Again is when a kept task expires, from now; 0 if time does not change the verdict.
	Again time.Duration
}

// State is what a verdict depends on, besides the binding.
type State struct {
	Now time.Time
	// Timeout is the grace period of tasks that have none.
	Timeout time.Duration
	// Ended returns whether it is certain that no copy runs in a cluster any more. It is called for bindings with the hand-over
	// Exclusive only. Nil: nothing is certain.
	Ended func(cluster string) bool
}

// Assess returns a verdict for every task of a binding. A copy that may be healthy is never evicted while no other copy is.
func Assess(b workv1alpha2.Binding, s State) []Verdict {
	spec := b.BindingSpec()
	verdicts := make([]Verdict, 0, len(spec.GracefulEvictionTasks))
	for i := range spec.GracefulEvictionTasks {
		task := &spec.GracefulEvictionTasks[i]
		v := Verdict{Task: *task}
		v.Finish, v.Why, v.Again = assess(b, task, s)
		verdicts = append(verdicts, v)
	}
	return verdicts
}

func assess(b workv1alpha2.Binding, task *workv1alpha2.GracefulEvictionTask, s State) (finish bool, why Why, again time.Duration) {
	spec := b.BindingSpec()
	switch {
	case task.SuppressDeletion != nil && !*task.SuppressDeletion:
		return true, Requested, 0
	case task.SuppressDeletion != nil:
		return false, Suppressed, 0
	case IsTarget(spec, task.FromCluster):
		return false, NothingFits, 0
	case len(spec.Clusters) == 0:
		return false, LastCopy, 0
	}
	if IsExclusive(b) {
		if s.Ended != nil && s.Ended(task.FromCluster) {
			return true, Replaced, 0
		}
		return false, AwaitsEnd, 0
	}
	left := Deadline(task, s.Timeout, s.Now).Sub(s.Now)
	healthy, all := healthyElsewhere(b)
	switch {
	case all:
		return true, Replaced, 0
	case left > 0:
		return false, AwaitsCopies, left
	case healthy, task.PurgeMode == policyv1alpha1.PurgeModeDirectly, HealthOf(b, task.FromCluster) == workv1alpha2.ResourceUnhealthy:
		return true, Expired, 0
	default:
		return false, LastCopy, 0
	}
}

// Deadline is when the grace period of a task is over. One without a time of creation begins now.
func Deadline(task *workv1alpha2.GracefulEvictionTask, timeout time.Duration, now time.Time) time.Time {
	if task.GracePeriodSeconds != nil {
		timeout = time.Duration(*task.GracePeriodSeconds) * time.Second
	}
	if task.CreationTimestamp == nil {
		return now.Add(timeout)
	}
	return task.CreationTimestamp.Add(timeout)
}

// current returns whether the scheduler has decided about the present spec.
func current(b workv1alpha2.Binding) bool {
	return b.BindingStatus().SchedulerObservedGeneration >= b.GetGeneration()
}

// healthyElsewhere returns whether some target, and whether every target, has a healthy copy. The latter is false if there is no
// target, if the scheduler has not decided about the present spec, or if some replicas have no place.
func healthyElsewhere(b workv1alpha2.Binding) (some, all bool) {
	all = len(b.BindingSpec().Clusters) > 0 && current(b) && meta.IsStatusConditionTrue(b.BindingStatus().Conditions, workv1alpha2.Scheduled)
	for _, target := range b.BindingSpec().Clusters {
		if Arrived(b, target.Name) {
			some = true
		} else {
			all = false
		}
	}
	return some, all
}

// Arrived returns whether there is nothing to wait for in a cluster: its copy is healthy, or applied and nothing reports a status of it, as of
// many custom resources. Of such a copy the binding does not show whether its cluster can be reached; that is decided by its taints.
func Arrived(b workv1alpha2.Binding, cluster string) bool {
	item := itemOf(b, cluster)
	return item != nil && (item.Health == workv1alpha2.ResourceHealthy || item.Health == workv1alpha2.ResourceUnknown && item.Applied && workv1alpha1.HasNoStatus(item.Status))
}

// HealthOf is the health of the copy in a cluster; empty if nothing is reported.
func HealthOf(b workv1alpha2.Binding, cluster string) workv1alpha2.ResourceHealth {
	if item := itemOf(b, cluster); item != nil {
		return item.Health
	}
	return ""
}

// StatusOf is the status of the copy in a cluster; nil if nothing is reported.
func StatusOf(b workv1alpha2.Binding, cluster string) *runtime.RawExtension {
	if item := itemOf(b, cluster); item != nil {
		return item.Status
	}
	return nil
}

func itemOf(b workv1alpha2.Binding, cluster string) *workv1alpha2.AggregatedStatusItem {
	for i := range b.BindingStatus().AggregatedStatus {
		if item := &b.BindingStatus().AggregatedStatus[i]; item.ClusterName == cluster {
			return item
		}
	}
	return nil
}

// IsExclusive returns whether the policy of a binding allows no two copies at the same time.
func IsExclusive(b workv1alpha2.Binding) bool {
	return b.GetAnnotations()[policyv1alpha1.HandoverAnnotation] == policyv1alpha1.HandoverExclusive
}
