package appfailover

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
)

// statePause is the pause before a state that could not be preserved is read again, if no event comes first.
const statePause = time.Minute

// returnPause is how long an application stays at least until it leaves a cluster again. What is placed by the policy alone, such as a copy in every
// cluster, returns as soon as the eviction is finished: without the pause a short toleration would create and delete the copy without end.
const returnPause = 5 * time.Minute

// outcome is what was decided about a binding.
type outcome struct {
	// evicted are the clusters that the application leaves from now on.
	evicted []string
	// changes are sentences about the tasks that were added or removed.
	changes []string
	// held is why a copy stays though it is unhealthy for too long; nil if none does.
	held *held
	// again is the pause before the next decision; 0 if time alone changes nothing.
	again time.Duration
}

// held is the reason, and its text, for which a copy keeps its place.
type held struct{ reason, message string }

func (o *outcome) wait(d time.Duration) {
	if o.again == 0 || d < o.again {
		o.again = d
	}
}

// decide adds to a binding the tasks that its policy requires, and removes those of copies that have recovered in time. Since has the
// clusters in which the application is unhealthy; earliest is before when it does not leave a cluster. Delay is how long an eviction waits for the
// rate. Stateful returns whether the object has persistent volumes: it moves only if the policy has the annotation flagship.io/handover, and leaves one
// cluster at a time.
func decide(b workv1alpha2.Binding, since map[string]time.Time, now time.Time, earliest func(cluster string) time.Time, delay func(cluster string) time.Duration, stateful func() (bool, error)) (outcome, error) {
	o := outcome{}
	cancel(b, now, &o)
	spec := b.BindingSpec()
	behaviour := spec.Failover.Application
	tolerated := time.Duration(ptr.Deref(behaviour.DecisionConditions.TolerationSeconds, policyv1alpha1.DefaultFailoverTolerationSeconds)) * time.Second
	exclusive, mode := eviction.IsExclusive(b), behaviour.PurgeMode
	if exclusive { // two copies never run at the same time
		mode = policyv1alpha1.PurgeModeDirectly
	}
	for _, cluster := range slices.Sorted(maps.Keys(since)) {
		if isSuspended(spec, cluster) {
			continue // the event of its end reconciles the binding
		}
		if left := max(since[cluster].Add(tolerated).Sub(now), earliest(cluster).Sub(now)); left > 0 {
			o.wait(left)
			continue
		}
		state, err := eviction.PreserveState(behaviour.StatePreservation, itemOf(b, cluster).Status)
		if err != nil {
			o.held = &held{workv1alpha2.StateNotReadableReason, fmt.Sprintf("the application stays in cluster %s: %v", cluster, err)}
			o.wait(statePause)
			continue
		}
		keepsData, err := stateful()
		if err != nil {
			return o, err
		}
		if keepsData && b.GetAnnotations()[policyv1alpha1.HandoverAnnotation] == "" {
			o.held = &held{workv1alpha2.HandoverNotAllowedReason, fmt.Sprintf(
				"the application stays in cluster %s: it has persistent volumes, and its policy lacks the annotation %s", cluster, policyv1alpha1.HandoverAnnotation)}
			continue
		}
		if (keepsData || exclusive) && len(spec.GracefulEvictionTasks) > 0 {
			continue // the event of the end of the task reconciles the binding
		}
		if left := delay(cluster); left > 0 {
			o.wait(left)
			continue
		}
		message := fmt.Sprintf("the application is unhealthy in cluster %s for more than %s", cluster, tolerated)
		order := eviction.Order{
			Cluster: cluster, Reason: workv1alpha2.EvictionReasonApplicationFailure, Producer: producerOf(b), Message: message,
			PurgeMode: mode, GracePeriodSeconds: behaviour.GracePeriodSeconds, PreservedLabelState: state,
		}
		if eviction.Append(spec, order, now) {
			o.evicted, o.changes = append(o.evicted, cluster), append(o.changes, "Evicted: "+message)
		}
	}
	return o, nil
}

// cancel removes the tasks of this package whose copy is healthy again while it still counts: it is in a target, since the scheduler
// found no other place, or it stays until the others are healthy. A copy that was left to a person, or is removed first, is not returned
// to.
func cancel(b workv1alpha2.Binding, now time.Time, o *outcome) {
	var recovered []string
	for _, task := range b.BindingSpec().GracefulEvictionTasks {
		item := itemOf(b, task.FromCluster)
		target := eviction.IsTarget(b.BindingSpec(), task.FromCluster)
		if task.Producer == producerOf(b) && item.Health == workv1alpha2.ResourceHealthy && (target || task.PurgeMode == policyv1alpha1.PurgeModeGracefully) {
			recovered = append(recovered, task.FromCluster)
		}
	}
	for _, cluster := range recovered {
		if eviction.Cancel(b, cluster, now) {
			o.changes = append(o.changes, fmt.Sprintf("Eviction cancelled: the application is healthy in cluster %s again", cluster))
		}
	}
}

// unhealthyTargets returns the targets in which the application is unhealthy, without those that it is leaving.
func unhealthyTargets(b workv1alpha2.Binding) []string {
	var unhealthy []string
	finished := workv1alpha2.FinishedOf(b) // a run that failed is over: it does not run again elsewhere
	for _, target := range b.BindingSpec().Clusters {
		if itemOf(b, target.Name).Health == workv1alpha2.ResourceUnhealthy && !finished.In(target.Name) && eviction.Find(b.BindingSpec(), target.Name) == nil {
			unhealthy = append(unhealthy, target.Name)
		}
	}
	return unhealthy
}

// itemOf is what is reported about the copy in a cluster; empty if nothing is.
func itemOf(b workv1alpha2.Binding, cluster string) workv1alpha2.AggregatedStatusItem {
	for _, item := range b.BindingStatus().AggregatedStatus {
		if item.ClusterName == cluster {
			return item
		}
	}
	return workv1alpha2.AggregatedStatusItem{}
}

// isSuspended returns whether the object cannot leave a cluster, because nothing is scheduled or nothing is written there.
func isSuspended(spec *workv1alpha2.ResourceBindingSpec, cluster string) bool {
	s := spec.Suspension
	return s != nil && (ptr.Deref(s.Scheduling, false) || ptr.Deref(s.Dispatching, false) ||
		s.DispatchingOnClusters != nil && slices.Contains(s.DispatchingOnClusters.ClusterNames, cluster))
}

func producerOf(b workv1alpha2.Binding) string {
	if b.GetNamespace() == "" {
		return workv1alpha2.EvictionProducerCRBApplicationFailover
	}
	return workv1alpha2.EvictionProducerRBApplicationFailover
}
