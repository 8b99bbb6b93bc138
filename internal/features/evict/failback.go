package evict

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
)

// recheck is when a binding is reconciled again that waits for what has no event of its own.
const recheck = 5 * time.Second

// failbackOf is the annotation of the policy of a binding about returning; Never without one, or with an unknown value.
func failbackOf(b workv1alpha2.Binding) string {
	switch mode := b.GetAnnotations()[policyv1alpha1.ClusterFailbackAnnotation]; mode {
	case policyv1alpha1.ClusterFailbackWhenHealthy, policyv1alpha1.ClusterFailbackManual:
		return mode
	default:
		return policyv1alpha1.ClusterFailbackNever
	}
}

// endReturns drops places in which the object is healthy again, that fail again, or that the scheduler has not chosen for the time that
// an eviction has. While one is left render lowers no replicas elsewhere.
func (p *pass) endReturns(ctx context.Context) error {
	returns := eviction.Returns(p.before)
	var open []eviction.Return
	for _, r := range returns {
		cluster, err := p.cluster(ctx, r.Cluster)
		if err != nil {
			return err
		}
		left := r.At.Add(p.Timeout).Sub(p.now)
		scheduled := p.before.BindingStatus().SchedulerObservedGeneration >= p.before.GetGeneration()
		chosen := eviction.IsTarget(p.before.BindingSpec(), r.Cluster)
		back := scheduled && chosen && eviction.Arrived(p.before, r.Cluster)
		if cluster == nil || !isReady(cluster) || back || left <= 0 && !chosen {
			continue
		}
		open = append(open, r)
		if left > 0 {
			p.after(left)
		}
	}
	if len(open) < len(returns) {
		eviction.SetReturns(p.next, open)
	}
	return nil
}

// failBack has the object return to clusters that it left and that are ready again, as its policy requires.
func (p *pass) failBack(ctx context.Context) error {
	left := eviction.FailedOver(p.next)
	if len(left) == 0 {
		return nil
	}
	keep := left[:0:0]
	for _, r := range left {
		cluster, err := p.cluster(ctx, r.Cluster)
		if err != nil {
			return err
		}
		switch {
		case cluster == nil, failbackOf(p.before) == policyv1alpha1.ClusterFailbackNever, eviction.IsTarget(p.next.BindingSpec(), r.Cluster):
			continue // it is not there to return to, must not, or did
		case !p.isDue(r, cluster):
			keep = append(keep, r)
			continue
		}
		r.At.Time = p.now.UTC().Truncate(time.Second)
		eviction.SetReturns(p.next, append(eviction.Returns(p.next), r))
		p.did(returned, "Return to cluster %s, which is ready again", r.Cluster)
	}
	if len(keep) < len(left) {
		eviction.SetFailedOver(p.next, keep)
	}
	return nil
}

// isDue returns whether the object is to return to a cluster now.
func (p *pass) isDue(r eviction.Return, cluster *clusterv1alpha1.Cluster) bool {
	annotations := p.before.GetAnnotations()
	if !p.accepts(cluster, p.before) || len(p.next.BindingSpec().GracefulEvictionTasks) > 0 || len(eviction.Returns(p.next)) > 0 {
		return false
	}
	if failbackOf(p.before) == policyv1alpha1.ClusterFailbackManual {
		requested, err := time.Parse(time.RFC3339, annotations[policyv1alpha1.ClusterFailbackRequestedAnnotation])
		return err == nil && !requested.Before(r.At.Time)
	}
	soak := policyv1alpha1.DefaultFailbackSoak
	if own, err := time.ParseDuration(annotations[policyv1alpha1.ClusterFailbackSoakAnnotation]); err == nil {
		soak = own
	}
	ready := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	since := slices.MaxFunc([]time.Time{ready.LastTransitionTime.Time, r.At.Time}, time.Time.Compare)
	if left := since.Add(soak).Sub(p.now); left > 0 {
		p.after(left)
		return false
	}
	return true
}
