package decision

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
)

// Request is everything about one binding that a decision depends on.
type Request struct {
	// Resource is the template: its kind decides which clusters can take it, its uid how ties are broken.
	Resource workv1alpha2.ObjectReference
	// Placement is that of the policy; nil is every cluster.
	Placement *policyv1alpha1.Placement
	// Replicas and Requirements are those of a workload; zero and nil otherwise.
	Replicas     int32
	Requirements *workv1alpha2.ReplicaRequirements
	// Components are the parts of a workload with several pod templates. With two or more, each chosen cluster receives all of them.
	Components []workv1alpha2.Component
	// Whole is true for a workload that is one set: a policy that divides it gives it to one cluster, which keeps it.
	Whole bool
	// Devices is what it claims of devices.
	Devices capacity.DeviceNeeds
	// Current is where the object is now.
	Current []workv1alpha2.TargetCluster
	// Evicting names clusters that the object is being moved out of.
	Evicting []string
	// Failover is true if the object leaves clusters that fail, and Expelled if it leaves those with a taint NoExecute: with Failover, or by the
	// configuration.
	Failover, Expelled bool
	// Limits are the most replicas that clusters take for now; others have none.
	Limits map[string]int32
	// ObservedAffinity names the term of clusterAffinities in use.
	ObservedAffinity string
	// Fresh divides anew, as if nothing ran anywhere yet.
	Fresh bool
	// Partial places what fits when not everything does.
	Partial bool
	// SpreadStatic has spread constraints hold for written static weights, too.
	SpreadStatic bool
	// Retained means that clusters keep the replicas they have, so that a share of none does not remove a copy.
	Retained bool
	// Failback tries the terms of clusterAffinities from the first on, even if a later one is in use.
	Failback bool
	// KindTravels is true when the kind is defined by a CRD that goes to the same clusters, so that a cluster need not serve it yet.
	KindTravels bool
	// Becomes are the kinds that the object can be translated to: serving one of them is as good as serving its own.
	Becomes []schema.GroupVersionKind
	// AffinityPeers are the other objects of the same affinity group, AntiAffinityPeers those of the same anti-affinity group; nil
	// means no group.
	AffinityPeers, AntiAffinityPeers *Peers
}

// Peers is where the other objects of a group are.
type Peers struct {
	// Group is "key=value" of the label that makes the group.
	Group string
	// Clusters are those that at least one of them is in.
	Clusters map[string]struct{}
}

// Has returns whether some of them is in the cluster.
func (p *Peers) Has(cluster string) bool {
	_, ok := p.Clusters[cluster]
	return ok
}

// strategy is how replicas are given to the chosen clusters.
type strategy int

const (
	// Duplicated gives every cluster all replicas. Objects without replicas are placed the same way.
	Duplicated strategy = iota
	// Static divides by fixed weights, whatever is available.
	Static
	// dynamic divides by how many more replicas fit.
	dynamic
	// Aggregated divides as dynamic does, among as few clusters as hold them.
	Aggregated
)

func StrategyOf(p *policyv1alpha1.Placement) strategy {
	if p == nil || p.ReplicaScheduling == nil || p.ReplicaScheduling.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDuplicated {
		return Duplicated
	}
	s := p.ReplicaScheduling
	if s.ReplicaDivisionPreference == policyv1alpha1.ReplicaDivisionPreferenceAggregated {
		return Aggregated
	}
	if s.WeightPreference != nil && s.WeightPreference.DynamicWeight != "" {
		return dynamic
	}
	return Static
}

// HasReplicas returns whether the object is a workload.
func (r *Request) HasReplicas() bool { return r.Replicas > 0 || r.Requirements != nil }

// WholeSets returns whether the object has several components that stay together.
func (r *Request) WholeSets() bool { return len(r.Components) > 1 }

// Divisible returns whether clusters receive a number of replicas.
func (r *Request) Divisible() bool { return r.HasReplicas() && !r.WholeSets() }

// ByAvailableReplicas returns whether available replicas decide how much a cluster receives.
func (r *Request) ByAvailableReplicas() bool {
	s := StrategyOf(r.Placement)
	return (s == dynamic || s == Aggregated) && (r.Divisible() || r.WholeSets())
}

// ClaimsNodes returns whether the pods require some property of nodes.
func (r *Request) ClaimsNodes() bool {
	if !r.WholeSets() {
		return r.Requirements != nil && r.Requirements.NodeClaim != nil
	}
	return slices.ContainsFunc(r.Components, func(c workv1alpha2.Component) bool {
		return c.ReplicaRequirements != nil && c.ReplicaRequirements.NodeClaim != nil
	})
}

// Demand is what a replica, or a whole set, needs of a cluster.
func (r *Request) Demand() capacity.Demand {
	switch {
	case r.WholeSets():
		return capacity.DemandOfSet(r.Components).In(r.Resource.Namespace, "")
	case r.Requirements != nil:
		needs := r.Requirements
		return capacity.DemandOf(needs.ResourceRequest).On(needs.NodeClaim).In(r.Resource.Namespace, needs.PriorityClassName).With(r.Devices.Replica)
	default:
		return capacity.DemandOf(nil).On(nil).In(r.Resource.Namespace, "").With(r.Devices.Replica)
	}
}

// SpreadConstraints are those that hold. With written static weights that is none, as Karmada documents, unless SpreadStatic is true.
func (r *Request) SpreadConstraints() []policyv1alpha1.SpreadConstraint {
	if r.Whole {
		return []policyv1alpha1.SpreadConstraint{{SpreadByField: policyv1alpha1.SpreadByFieldCluster, MinGroups: 1, MaxGroups: 1}}
	}
	if r.Placement == nil || !r.SpreadStatic && r.Placement.HasStaticWeights() {
		return nil
	}
	return r.Placement.SpreadConstraints
}

// Term is one group of clusters to try.
type Term struct {
	// Name is that of the clusterAffinities entry, empty for a single clusterAffinity.
	Name string
	// Affinity selects the clusters; nil selects all.
	Affinity *policyv1alpha1.ClusterAffinity
	// Overflow are further tiers, for what the clusters of Affinity cannot hold.
	Overflow []policyv1alpha1.OverflowAffinityTerm
}

// Path is where a user finds the term in the placement.
func (t Term) Path() string {
	if t.Name == "" {
		return "clusterAffinity"
	}
	return fmt.Sprintf("clusterAffinities[%s]", t.Name)
}

// Terms lists what to try, in order: from the term in use forward, then, since an earlier one may have recovered meanwhile, those
// before it. A fresh decision, or one that may fail back, starts at the first.
func (r *Request) Terms() []Term {
	if r.Placement == nil {
		return []Term{{}}
	}
	if len(r.Placement.ClusterAffinities) == 0 {
		return []Term{{Affinity: r.Placement.ClusterAffinity}}
	}
	all := make([]Term, len(r.Placement.ClusterAffinities))
	start := 0
	for i := range r.Placement.ClusterAffinities {
		t := &r.Placement.ClusterAffinities[i]
		all[i] = Term{Name: t.AffinityName, Affinity: &t.ClusterAffinity, Overflow: t.OverflowAffinities}
		if t.AffinityName == r.ObservedAffinity && !r.Fresh && !r.Failback {
			start = i
		}
		if !r.Divisible() {
			all[i].Overflow = nil
		}
	}
	return slices.Concat(all[start:], all[:start])
}

// Units is how much of its demand a target takes: its replicas, or one whole set.
func (r *Request) Units(t workv1alpha2.TargetCluster) int32 {
	if r.WholeSets() {
		return 1
	}
	return t.Replicas
}
