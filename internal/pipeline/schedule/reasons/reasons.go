package reasons

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
)

// Words for clusters that pass all filters and are not chosen all the same.
const (
	notSelected = "NotSelected"
	noReplicas  = "NoReplicas"
)

// Candidates makes a decision and returns every cluster with what it was given, or with why it was not chosen and what would let it in.
// Only is the one cluster to explain, "" for all.
func Candidates(p profile.Profile, req decision.Request, snapshot *decision.Snapshot, only string) ([]explain.Candidate, error) {
	d := p.Schedule(req, snapshot)
	a := &d.Attempts[0]
	for n := range d.Attempts {
		if d.Failure == nil && d.Attempts[n].Term.Name == d.Affinity {
			a = &d.Attempts[n]
		}
	}
	obstacles, err := p.Obstacles(&req, snapshot, a.Term)
	if err != nil {
		return nil, fmt.Errorf("explaining the placement: %w", err)
	}
	demand := req.Demand()
	out := make([]explain.Candidate, 0, len(a.Candidates))
	for i := range a.Candidates {
		v := &a.Candidates[i]
		if only != "" && v.Cluster.Name != only {
			continue
		}
		x := explain.Candidate{
			Name:   v.Cluster.Name,
			Target: slices.ContainsFunc(req.Current, func(t workv1alpha2.TargetCluster) bool { return t.Name == v.Cluster.Name }),
		}
		if v.Reason != nil {
			x.Filter = a.DroppedBy(i)
			for _, o := range obstacles(decision.Candidate{Cluster: v.Cluster, Held: v.Held, Current: v.Current}) {
				x.Dropped, x.Remedies = append(x.Dropped, o.Reason.String()), append(x.Remedies, o.Changes...)
			}
			out = append(out, x)
			continue
		}
		for _, scorer := range a.Scorers {
			x.Scores = append(x.Scores, fleetv1alpha1.ClusterScore{Scorer: scorer, Points: a.Scores(i)[scorer]})
		}
		if req.Divisible() && a.Failure == nil {
			x.Replicas = ptr.To(v.Replicas)
		}
		measured := req.ByAvailableReplicas() && v.Allocatable < math.MaxInt32
		if measured {
			x.Available = ptr.To(v.Allocatable)
		}
		switch placed := slices.ContainsFunc(a.Targets, func(t workv1alpha2.TargetCluster) bool { return t.Name == v.Cluster.Name }); {
		case placed:
		case measured && v.Allocatable == 0 && v.Current == 0:
			x.Filter, x.Dropped = noReplicas, []string{"no replica fits"}
			x.Remedies = short(&v.Cluster.Headroom, &demand, &snapshot.Taken[i])
		case a.Failure != nil:
			x.Filter, x.Dropped = notSelected, []string{"fits, and the placement as a whole failed"}
		case !v.Chosen:
			x.Filter, x.Dropped = notSelected, []string{"fits, and is not among the clusters that the spread constraints select"}
		default:
			x.Filter, x.Dropped = noReplicas, []string{"fits, and its share of the replicas is none"}
		}
		out = append(out, x)
	}
	return out, nil
}

// short lists what a cluster lacks for one more replica.
func short(headroom *capacity.Headroom, demand *capacity.Demand, taken *capacity.Usage) []string {
	var out []string
	for name, quantity := range headroom.Short(demand, taken) {
		out = append(out, fmt.Sprintf("%s %s more", quantity.String(), name))
	}
	slices.SortFunc(out, strings.Compare)
	for _, quota := range headroom.FullQuotas(demand, taken) {
		out = append(out, "more in its ResourceQuota "+quota)
	}
	if len(out) == 0 {
		return []string{"one node on which a whole replica fits"}
	}
	return out
}
