package plugins

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// Names of filters of which the smallest change is known that lets a cluster pass.
const (
	APIFilter    = "APIEnablement"
	TaintFilter  = "TaintToleration"
	SpreadFilter = "SpreadConstraint"
)

// Filters returns all filters, in the order in which they are called.
func Filters() []decision.Filter {
	return []decision.Filter{
		// The first, so that a cluster which the placement does not select counts as such whatever else is true of it: see Unselected.
		{Name: decision.ClusterAffinityFilter, Fixed: true, Prepare: clusterAffinity},
		{Name: "ClusterLeaving", Fixed: true, Prepare: clusterLeaving},
		{Name: "ClusterEviction", Prepare: clusterEviction},
		{Name: APIFilter, Fixed: true, Prepare: apiEnablement},
		{Name: TaintFilter, Fixed: true, Prepare: taintToleration},
		{Name: DevicesFilter, Prepare: devices},
		{Name: "NodeTopology", Prepare: nodeTopology},
		{Name: SpreadFilter, Fixed: true, Prepare: spreadConstraint},
		{Name: "WorkloadAffinity", Prepare: workloadAffinity},
		{Name: "WorkloadAntiAffinity", Prepare: workloadAntiAffinity},
	}
}

// Scorers returns all scorers.
func Scorers() []decision.Scorer {
	return []decision.Scorer{{Name: "ClusterLocality", Prepare: clusterLocality}, {Name: "FreeDevices", Prepare: freeDevices}}
}

// dropIf is a check with one reason.
func dropIf(one, many string, drops func(*decision.Candidate) bool) decision.Check {
	reason := decision.NewReason(one, many)
	return func(v *decision.Candidate) *decision.Reason {
		if drops(v) {
			return reason
		}
		return nil
	}
}

// clusterLeaving drops clusters that are being deleted.
func clusterLeaving(*decision.Round) decision.Check {
	return dropIf("is being deleted", "are being deleted", func(v *decision.Candidate) bool { return v.Cluster.Leaving })
}

// clusterEviction drops clusters that the object is being moved out of.
func clusterEviction(r *decision.Round) decision.Check {
	if len(r.Request.Evicting) == 0 {
		return nil
	}
	return dropIf("is being evicted from", "are being evicted from",
		func(v *decision.Candidate) bool { return slices.Contains(r.Request.Evicting, v.Cluster.Name) })
}

// clusterAffinity drops clusters that the term does not select.
func clusterAffinity(r *decision.Round) decision.Check {
	if len(r.Tiers.Selectors) == 1 && r.Term.Affinity == nil {
		return nil
	}
	return func(v *decision.Candidate) *decision.Reason {
		_, reason := r.Tiers.Of(v.Cluster)
		return reason
	}
}

// apiEnablement drops clusters that do not serve the kind. A cluster that has the object keeps it, since a discovery that fails for
// a moment must not move anything.
func apiEnablement(r *decision.Round) decision.Check {
	if r.Request.KindTravels {
		return nil
	}
	gv, kind := r.Request.Resource.APIVersion, r.Request.Resource.Kind
	lacks := decision.NewReason(fmt.Sprintf("lacks %s %s", gv, kind), fmt.Sprintf("lack %s %s", gv, kind))
	unknown := decision.NewReason(
		fmt.Sprintf("has not reported whether it serves %s %s", gv, kind),
		fmt.Sprintf("have not reported whether they serve %s %s", gv, kind),
	)
	answer := func(apis *decision.APISet) *decision.Reason {
		switch {
		case apis.Serves(gv, kind), apis.ServesAny(r.Request.Becomes):
			return nil
		case apis.Complete:
			return lacks
		default:
			return unknown
		}
	}
	var last *decision.APISet
	var lastAnswer *decision.Reason
	return func(v *decision.Candidate) *decision.Reason {
		if v.Held {
			return nil
		}
		if apis := v.Cluster.APIs; last == nil || apis.Content != last.Content {
			last, lastAnswer = apis, answer(apis)
		}
		return lastAnswer
	}
}

// taintToleration drops clusters with a taint that is not tolerated. A cluster that has the object keeps it: NoSchedule is about
// new objects, and what is there is removed by evictions. A toleration with tolerationSeconds is about how long an object stays. It brings none
// to a cluster from which the object is evicted: a cluster that was left would be chosen again as soon as the eviction is finished.
func taintToleration(r *decision.Round) decision.Check {
	var tolerations []corev1.Toleration
	if r.Request.Placement != nil {
		tolerations = r.Request.Placement.ClusterTolerations
	}
	return func(v *decision.Candidate) *decision.Reason {
		if v.Held {
			return nil
		}
		for i := range v.Cluster.Taints {
			t := &v.Cluster.Taints[i]
			if t.Failure && !r.Request.Failover {
				continue
			}
			if !schedulingcorev1.TolerationsTolerateTaint(klog.Background(), tolerations, &t.Taint, false) {
				return t.Reason
			}
			if !r.Request.Expelled || t.Effect != corev1.TaintEffectNoExecute {
				continue
			}
			if _, forever := eviction.Tolerates(tolerations, &t.Taint, 0); !forever {
				return t.Limited
			}
		}
		return nil
	}
}

// spreadConstraint drops clusters that lack a property by which the object is to be spread.
func spreadConstraint(r *decision.Round) decision.Check {
	dims := decision.DimensionsOf(r.Request.SpreadConstraints())
	if len(dims) == 0 {
		return nil
	}
	reasons := make([]*decision.Reason, len(dims))
	for i, d := range dims {
		reasons[i] = decision.NewReason("has no "+d.Name, "have no "+d.Name)
	}
	return func(v *decision.Candidate) *decision.Reason {
		for i := range dims {
			if dims[i].GroupOf(v.Cluster) == "" {
				return reasons[i]
			}
		}
		return nil
	}
}

// workloadAffinity keeps objects of one group together: once one of them is placed, the others follow. Clusters that have left do
// not count.
func workloadAffinity(r *decision.Round) decision.Check {
	peers := r.Request.AffinityPeers
	if peers == nil {
		return nil
	}
	for name := range peers.Clusters {
		if c := r.Snapshot.Get(name); c != nil && !c.Leaving {
			group := " no object of affinity group " + peers.Group
			return dropIf("has"+group, "have"+group, func(v *decision.Candidate) bool { return !peers.Has(v.Cluster.Name) })
		}
	}
	return nil
}

// workloadAntiAffinity keeps objects of one group apart.
func workloadAntiAffinity(r *decision.Round) decision.Check {
	peers := r.Request.AntiAffinityPeers
	if peers == nil || len(peers.Clusters) == 0 {
		return nil
	}
	group := " an object of anti-affinity group " + peers.Group
	return dropIf("has"+group, "have"+group, func(v *decision.Candidate) bool { return peers.Has(v.Cluster.Name) })
}

// clusterLocality prefers clusters that have the object already.
func clusterLocality(r *decision.Round) decision.Rate {
	if len(r.Request.Current) == 0 {
		return nil
	}
	return func(v *decision.Candidate) int64 {
		if v.Held {
			return decision.MaxScore
		}
		return 0
	}
}
