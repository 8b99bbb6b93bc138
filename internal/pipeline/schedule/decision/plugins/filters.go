package plugins

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// Filters returns all filters, in the order in which they are called.
func Filters() []decision.Filter {
	return []decision.Filter{
		clusterLeaving{}, clusterEviction{}, clusterAffinity{}, apiEnablement{}, taintToleration{},
		devices{}, nodeTopology{}, spreadConstraint{}, workloadAffinity{}, workloadAntiAffinity{},
	}
}

// Scorers returns all scorers.
func Scorers() []decision.Scorer {
	return []decision.Scorer{clusterLocality{}, clusterAffinityScore{}, freeDevices{}}
}

// clusterLeaving drops clusters that are being deleted.
type clusterLeaving struct{}

func (clusterLeaving) Name() string { return "ClusterLeaving" }

// Fixed implements [Fixed].
func (clusterLeaving) Fixed() {}

func (clusterLeaving) Prepare(*decision.Round) (decision.Check, error) {
	leaving := decision.Because("is being deleted", "are being deleted")
	return func(v *decision.Candidate) *decision.Reason {
		if v.Cluster.Leaving {
			return leaving
		}
		return nil
	}, nil
}

// clusterEviction drops clusters that the object is being moved out of.
type clusterEviction struct{}

func (clusterEviction) Name() string { return "ClusterEviction" }

func (clusterEviction) Prepare(r *decision.Round) (decision.Check, error) {
	evicting := decision.NameSet(r.Request.Evicting)
	if evicting == nil {
		return nil, nil
	}
	reason := decision.Because("is being evicted from", "are being evicted from")
	return func(v *decision.Candidate) *decision.Reason {
		if _, ok := evicting[v.Cluster.Name]; ok {
			return reason
		}
		return nil
	}, nil
}

// clusterAffinity drops clusters that the term does not select.
type clusterAffinity struct{}

func (clusterAffinity) Name() string { return "ClusterAffinity" }

// Fixed implements [Fixed].
func (clusterAffinity) Fixed() {}

func (clusterAffinity) Prepare(r *decision.Round) (decision.Check, error) {
	if len(r.Tiers.Selectors) == 1 && r.Tiers.Selectors[0] == nil {
		return nil, nil
	}
	return func(v *decision.Candidate) *decision.Reason {
		_, reason := r.Tiers.Of(v.Cluster)
		return reason
	}, nil
}

// apiEnablement drops clusters that do not serve the kind. A cluster that has the object keeps it, since a discovery that fails for
// a moment must not move anything.
type apiEnablement struct{}

func (apiEnablement) Name() string { return "APIEnablement" }

// Fixed implements [Fixed].
func (apiEnablement) Fixed() {}

func (apiEnablement) Prepare(r *decision.Round) (decision.Check, error) {
	if r.Request.KindTravels {
		return nil, nil
	}
	gv, kind := r.Request.Resource.APIVersion, r.Request.Resource.Kind
	lacks := decision.Because(fmt.Sprintf("lacks %s %s", gv, kind), fmt.Sprintf("lack %s %s", gv, kind))
	unknown := decision.Because(
		fmt.Sprintf("has not said yet whether it serves %s %s", gv, kind),
		fmt.Sprintf("have not said yet whether they serve %s %s", gv, kind),
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
	}, nil
}

// taintToleration drops clusters with a taint that is not tolerated. A cluster that has the object keeps it: NoSchedule is about
// new objects, and driving out what is there is the business of evictions.
type taintToleration struct{}

func (taintToleration) Name() string { return "TaintToleration" }

// Fixed implements [Fixed].
func (taintToleration) Fixed() {}

func (taintToleration) Prepare(r *decision.Round) (decision.Check, error) {
	var tolerations []corev1.Toleration
	if r.Request.Placement != nil {
		tolerations = r.Request.Placement.ClusterTolerations
	}
	return func(v *decision.Candidate) *decision.Reason {
		if v.Held {
			return nil
		}
		for i := range v.Cluster.Taints {
			if t := &v.Cluster.Taints[i]; !tolerated(&t.Taint, tolerations) {
				return t.Reason
			}
		}
		return nil
	}, nil
}

func tolerated(t *corev1.Taint, tolerations []corev1.Toleration) bool {
	for i := range tolerations {
		if tolerates(&tolerations[i], t) {
			return true
		}
	}
	return false
}

func tolerates(toleration *corev1.Toleration, t *corev1.Taint) bool {
	if toleration.Effect != "" && toleration.Effect != t.Effect {
		return false
	}
	switch toleration.Operator {
	case corev1.TolerationOpExists:
		return toleration.Key == "" || toleration.Key == t.Key
	case corev1.TolerationOpEqual, "":
		return toleration.Key == t.Key && toleration.Value == t.Value
	default:
		return false
	}
}

// spreadConstraint drops clusters that lack a property by which the object is to be spread.
type spreadConstraint struct{}

func (spreadConstraint) Name() string { return "SpreadConstraint" }

// Fixed implements [Fixed].
func (spreadConstraint) Fixed() {}

func (spreadConstraint) Prepare(r *decision.Round) (decision.Check, error) {
	dims := decision.DimensionsOf(r.Request.SpreadConstraints())
	if len(dims) == 0 {
		return nil, nil
	}
	reasons := make([]*decision.Reason, len(dims))
	for i, d := range dims {
		reasons[i] = decision.Because("has no "+d.Name, "have no "+d.Name)
	}
	return func(v *decision.Candidate) *decision.Reason {
		for i := range dims {
			if dims[i].GroupOf(v.Cluster) == "" {
				return reasons[i]
			}
		}
		return nil
	}, nil
}

// workloadAffinity keeps objects of one group together: once one of them is
// placed, the others follow. Clusters that have left do not bind anybody.
type workloadAffinity struct{}

func (workloadAffinity) Name() string { return "WorkloadAffinity" }

func (workloadAffinity) Prepare(r *decision.Round) (decision.Check, error) {
	peers := r.Request.Companions
	if peers == nil || !anyPresent(r.Snapshot, peers) {
		return nil, nil
	}
	reason := decision.Because(
		"has no object of affinity group "+peers.Group,
		"have no object of affinity group "+peers.Group,
	)
	return func(v *decision.Candidate) *decision.Reason {
		if _, ok := peers.Clusters[v.Cluster.Name]; ok {
			return nil
		}
		return reason
	}, nil
}

func anyPresent(s *decision.Snapshot, peers *decision.Peers) bool {
	for name := range peers.Clusters {
		if c := s.Get(name); c != nil && !c.Leaving {
			return true
		}
	}
	return false
}

// workloadAntiAffinity keeps objects of one group apart.
type workloadAntiAffinity struct{}

func (workloadAntiAffinity) Name() string { return "WorkloadAntiAffinity" }

func (workloadAntiAffinity) Prepare(r *decision.Round) (decision.Check, error) {
	peers := r.Request.Rivals
	if peers == nil || len(peers.Clusters) == 0 {
		return nil, nil
	}
	reason := decision.Because(
		"has an object of anti-affinity group "+peers.Group,
		"have an object of anti-affinity group "+peers.Group,
	)
	return func(v *decision.Candidate) *decision.Reason {
		if _, ok := peers.Clusters[v.Cluster.Name]; ok {
			return reason
		}
		return nil
	}, nil
}

// clusterLocality prefers clusters that have the object already.
type clusterLocality struct{}

func (clusterLocality) Name() string { return "ClusterLocality" }

func (clusterLocality) Prepare(r *decision.Round) decision.Rate {
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

// clusterAffinityScore is the place for a preference among selected clusters; the API has none yet.
type clusterAffinityScore struct{}

func (clusterAffinityScore) Name() string { return "ClusterAffinity" }

func (clusterAffinityScore) Prepare(*decision.Round) decision.Rate { return nil }
