package evict

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/affinity"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
)

// pass is one reconcile of one binding.
type pass struct {
	*Reconciler
	Config
	key    types.NamespacedName
	now    time.Time
	before workv1alpha2.Binding
	// next is the binding as it should be.
	next     workv1alpha2.Binding
	clusters map[string]*clusterv1alpha1.Cluster
	done     []step
	// waits is the reason and the message of the condition EvictionHeld; empty without one.
	waits, message string
	again          time.Duration
}

// step is a change of the binding, for metrics and an event.
type step struct{ what, message string }

func (p *pass) did(what, format string, args ...any) {
	p.done = append(p.done, step{what, fmt.Sprintf(format, args...)})
}

// wait notes that a copy stays; the first reason counts.
func (p *pass) wait(reason, format string, args ...any) {
	if p.waits == "" {
		p.waits, p.message = reason, fmt.Sprintf(format, args...)
	}
}

// after has the binding reconciled again.
func (p *pass) after(d time.Duration) {
	if d = max(d, time.Millisecond); p.again == 0 || d < p.again {
		p.again = d
	}
}

// cluster returns a Cluster of the cache; nil if it does not exist or is being deleted.
func (p *pass) cluster(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error) {
	if known, ok := p.clusters[name]; ok {
		return known, nil
	}
	c := &clusterv1alpha1.Cluster{}
	err := p.Client.Get(ctx, client.ObjectKey{Name: name}, c, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err), err == nil && c.DeletionTimestamp != nil:
		c = nil
	case err != nil:
		return nil, fmt.Errorf("reading cluster %s: %w", name, err)
	}
	p.clusters[name] = c
	return c, nil
}

func (p *pass) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{p.endReturns, p.endTasks, p.evict, p.failBack} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// endTasks removes tasks that are finished or not needed any more.
func (p *pass) endTasks(ctx context.Context) error {
	if len(p.next.BindingSpec().GracefulEvictionTasks) == 0 {
		return nil
	}
	verdicts := eviction.Assess(p.before, eviction.State{Now: p.now, Timeout: p.Timeout, Ended: func(cluster string) bool { return p.hasEnded(ctx, cluster) }})
	for i := range verdicts {
		v := &verdicts[i]
		from := v.Task.FromCluster
		cluster, err := p.cluster(ctx, from)
		if err != nil {
			return err
		}
		switch {
		case cluster == nil: // its copies go with it
			eviction.Remove(p.next.BindingSpec(), from)
		case v.Finish:
			p.finish(v)
		case p.isNeedless(&v.Task, cluster):
			eviction.Cancel(p.next, from, p.now)
			p.did(cancelled, "The eviction from cluster %s is cancelled: it is ready again, and its copy has not been replaced", from)
		default:
			p.keep(v)
		}
	}
	return nil
}

func (p *pass) finish(v *eviction.Verdict) {
	from := v.Task.FromCluster
	eviction.Remove(p.next.BindingSpec(), from)
	if v.Task.Producer == workv1alpha2.EvictionProducerTaintManager && v.Why != eviction.Requested && failbackOf(p.before) != policyv1alpha1.ClusterFailbackNever {
		left := slices.DeleteFunc(eviction.FailedOver(p.next), func(r eviction.Return) bool { return r.Cluster == from })
		eviction.SetFailedOver(p.next, append(left, eviction.ReturnOf(&v.Task, p.now)))
	}
	p.did(finished, "The eviction from cluster %s is finished: %s", from, v.Why)
}

// isNeedless returns whether what this package appended a task for is over. A copy that is removed first is being removed already.
func (p *pass) isNeedless(task *workv1alpha2.GracefulEvictionTask, cluster *clusterv1alpha1.Cluster) bool {
	return task.Producer == workv1alpha2.EvictionProducerTaintManager && task.SuppressDeletion == nil &&
		(task.PurgeMode != policyv1alpha1.PurgeModeDirectly || eviction.IsTarget(p.before.BindingSpec(), task.FromCluster)) &&
		isReady(cluster) && p.expels(cluster, p.before) == nil
}

// keep notes why a task is kept.
func (p *pass) keep(v *eviction.Verdict) {
	from := v.Task.FromCluster
	switch v.Why {
	case eviction.NothingFits:
		if p.before.BindingStatus().SchedulerObservedGeneration >= p.before.GetGeneration() {
			p.wait(workv1alpha2.NothingFitsReason, "The copy in cluster %s stays: there is no other place for it, see the condition %s", from, workv1alpha2.Scheduled)
		}
	case eviction.LastCopy:
		p.wait(workv1alpha2.LastCopyReason, "The copy in cluster %s stays: no copy elsewhere is healthy", from)
	case eviction.AwaitsEnd:
		p.wait(workv1alpha2.AwaitsEndReason, "The copies elsewhere wait until cluster %s confirms that its copy is gone, or a person that it is fenced: annotation %s on the Cluster",
			from, clusterv1alpha1.FencedAnnotation)
	case eviction.AwaitsCopies, eviction.Suppressed, eviction.Expired, eviction.Replaced, eviction.Requested:
	}
	if v.Again > 0 {
		p.after(v.Again)
	}
	if v.Task.CreationTimestamp == nil { // of another producer
		eviction.Stamp(eviction.Find(p.next.BindingSpec(), from), p.now)
	}
}

// hasEnded returns whether no copy runs in a cluster any more: its Work, which outlives the object, is gone, or the cluster is fenced.
func (p *pass) hasEnded(ctx context.Context, name string) bool {
	cluster, err := p.cluster(ctx, name)
	if err != nil { // unknown is not ended
		p.after(recheck)
		return false
	}
	if cluster == nil || clusterv1alpha1.IsFenced(cluster) {
		return true
	}
	label := p.before.PermanentIDLabel()
	works, err := hubclient.ListWorks(ctx, p.Client, client.InNamespace(workv1alpha1.ExecutionNamespace(name)), client.MatchingLabels{label: p.before.GetLabels()[label]})
	ended := err == nil && len(works) == 0
	if !ended {
		p.after(recheck)
	}
	return ended
}

// evict appends tasks for the targets in clusters that expel the object.
func (p *pass) evict(ctx context.Context) error {
	spec := p.before.BindingSpec()
	var held []string
	defer func() { p.guard.forget(p.key, held...) }()
	if s := spec.Suspension; s != nil && s.Scheduling != nil && *s.Scheduling {
		return nil
	}
	if isUndecided(p.before) {
		return nil // what the scheduler writes enqueues the binding
	}
	finished := workv1alpha2.FinishedOf(p.before) // nothing of it runs there, and elsewhere it would run again
	for _, target := range spec.Clusters {
		cluster, err := p.cluster(ctx, target.Name)
		if err != nil {
			return err
		}
		if cluster == nil || eviction.Find(p.next.BindingSpec(), target.Name) != nil || finished.In(target.Name) {
			continue
		}
		e := p.expels(cluster, p.before)
		if e == nil {
			continue
		}
		if selected, err := affinity.Selects(spec.Placement, cluster); err != nil {
			return err
		} else if !selected && !policyv1alpha1.IsOn(p.before.GetAnnotations(), policyv1alpha1.KeepUnselectedAnnotation) {
			continue // the scheduler has the object leave it, with a taint or without
		}
		if left := e.at.Sub(p.now); left > 0 {
			p.after(left)
			continue
		}
		if !p.guard.admits(target.Name, p.key) {
			held = append(held, target.Name)
			continue
		}
		mode, err := p.mayMove(ctx, cluster)
		if err != nil {
			return err
		}
		if mode != "" {
			p.order(cluster.Name, mode, e)
		}
	}
	return nil
}

func (p *pass) order(cluster string, mode policyv1alpha1.PurgeMode, e *expulsion) {
	message := fmt.Sprintf("The taint %s of cluster %s is not tolerated", e.taint.ToString(), cluster)
	var state map[string]string
	if f := p.before.BindingSpec().Failover; f != nil && f.Cluster != nil {
		var err error
		if state, err = eviction.PreserveState(f.Cluster.StatePreservation, eviction.StatusOf(p.before, cluster)); err != nil {
			p.wait(workv1alpha2.StateNotReadableReason, "The copy in cluster %s stays: %v", cluster, err)
			return
		}
	}
	if delay := p.EvictionRate.Delay(eviction.ClusterFailure, p.key, cluster); delay > 0 {
		p.after(delay)
		return
	}
	appended := eviction.Append(p.next.BindingSpec(), eviction.Order{
		Cluster: cluster, Reason: workv1alpha2.EvictionReasonTaintUntolerated, Message: message, Producer: workv1alpha2.EvictionProducerTaintManager,
		PurgeMode: mode, PreservedLabelState: state,
	}, p.now)
	if appended {
		p.did(ordered, "Evict from cluster %s: %s", cluster, message)
	}
}

// purgeMode is that of the policy, or of the flag for a policy without cluster failover.
func (p *pass) purgeMode() policyv1alpha1.PurgeMode {
	if f := p.before.BindingSpec().Failover; f != nil && f.Cluster != nil {
		if f.Cluster.PurgeMode != "" {
			return f.Cluster.PurgeMode
		}
		return policyv1alpha1.PurgeModeGracefully
	}
	return p.PurgeMode
}
