package cause

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
)

// Cause is why a binding has to be scheduled.
type Cause string

// The causes.
const (
	NotDue           Cause = ""
	NotScheduled     Cause = "not scheduled yet"
	PlacementChanged Cause = "placement changed"
	ReplicasChanged  Cause = "replicas changed"
	FreshRequested   Cause = "reschedule requested"
	FollowsFleet     Cause = "its result follows the fleet"
	TargetLost       Cause = "a target no longer fits"
)

// Of returns why b has to be scheduled, or that it need not be. A workload that is divided by available replicas, or by weights that the
// placement does not name, is not scheduled while it has all its replicas and all its targets still fit.
func Of(p profile.Profile, b workv1alpha2.Binding, req *decision.Request, snapshot *decision.Snapshot) Cause {
	switch {
	case !meta.IsStatusConditionTrue(b.BindingStatus().Conditions, workv1alpha2.Scheduled):
		return NotScheduled
	case req.Fresh:
		return FreshRequested
	case placementDiffers(b):
		return PlacementChanged
	case FollowsClusters(req):
		return FollowsFleet
	case replicasDiffer(req):
		return ReplicasChanged
	case p.Displaced(req, snapshot):
		return TargetLost
	default:
		return NotDue
	}
}

// FollowsClusters returns whether the result is a function of placement and clusters alone, so that a change of clusters changes it:
// every cluster gets everything, or a share that the placement names.
func FollowsClusters(req *decision.Request) bool {
	return !req.Divisible() || hasNamedShares(req.Placement)
}

func hasNamedShares(p *policyv1alpha1.Placement) bool {
	return decision.StrategyOf(p) == decision.Duplicated || p.HasStaticWeights()
}

// replicasDiffer returns whether the targets hold more or fewer replicas than desired, in all.
func replicasDiffer(req *decision.Request) bool {
	var sum int64
	for _, t := range req.Current {
		sum += int64(t.Replicas)
	}
	return sum != int64(req.Replicas)
}

// placementDiffers compares the placement with the one that the present result was made by. Of several affinities only the one in
// use counts. An annotation that cannot be read counts as equal, so that nothing moves because of it.
func placementDiffers(b workv1alpha2.Binding) bool {
	annotation, ok := b.GetAnnotations()[workv1alpha2.AppliedPlacementAnnotation]
	if !ok {
		return true
	}
	now := PlacementOf(b)
	var then policyv1alpha1.Placement
	if json.Unmarshal([]byte(annotation), &then) != nil {
		return false
	}
	same := equality.Semantic.DeepEqual
	if !same(now.ClusterAffinity, then.ClusterAffinity) || !same(now.ClusterTolerations, then.ClusterTolerations) ||
		!same(now.SpreadConstraints, then.SpreadConstraints) || !same(now.ReplicaScheduling, then.ReplicaScheduling) {
		return true
	}
	if len(now.ClusterAffinities) == 0 && len(then.ClusterAffinities) == 0 {
		return false
	}
	observed := b.BindingStatus().SchedulerObservedAffinityName
	wanted, applied := TermIndex(now, observed), TermIndex(&then, observed)
	return wanted < 0 || applied < 0 || !same(now.ClusterAffinities[wanted], then.ClusterAffinities[applied])
}

// TermIndex is the place of a term among the clusterAffinities, -1 if it is not there.
func TermIndex(p *policyv1alpha1.Placement, name string) int {
	if p == nil || name == "" {
		return -1
	}
	return slices.IndexFunc(p.ClusterAffinities, func(t policyv1alpha1.ClusterAffinityTerm) bool { return t.AffinityName == name })
}

// PlacementOf is the placement of a binding, an empty one if it names none.
func PlacementOf(b workv1alpha2.Binding) *policyv1alpha1.Placement {
	if p := b.BindingSpec().Placement; p != nil {
		return p
	}
	return &policyv1alpha1.Placement{}
}
