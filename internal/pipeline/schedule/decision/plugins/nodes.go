package plugins

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// nodeTopology drops clusters outside the regions and zones that the pods' node selector or required node affinity names,
// where available replicas decide how much a cluster receives: such a cluster has none. The spec of a Cluster has nothing about
// nodes but their regions and zones, so that other labels are not considered. A value that no cluster of the fleet has rules out
// none: nodes may have other labels than clusters.
func nodeTopology(r *decision.Round) decision.Check {
	claims := placesOfNodes(r)
	if claims == nil {
		return nil
	}
	var words []string
	for _, claim := range claims {
		if text := claim.String(); !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	where := strings.Join(words, " and ")
	reason := decision.NewReason("has no nodes in "+where, "have no nodes in "+where)
	out := outside(r, claims)
	return func(v *decision.Candidate) *decision.Reason {
		if v.Held || !out(v.Cluster) {
			return nil
		}
		return reason
	}
}

// placesOfNodes are the claims that rule out some place, if available replicas decide.
func placesOfNodes(r *decision.Round) []nodeClaim {
	if !r.Request.ByAvailableReplicas() {
		return nil
	}
	var claims []nodeClaim
	for _, claim := range nodeClaims(r.Request) {
		if wanted := readClaim(claim); wanted.places() {
			claims = append(claims, wanted)
		}
	}
	return claims
}

// OutsideNodes returns a function that returns whether a cluster has no available replicas because its nodes are in the wrong place.
func OutsideNodes(r *decision.Round) func(*decision.Cluster) bool {
	return outside(r, placesOfNodes(r))
}

// outside is [OutsideNodes] for claims that are known.
func outside(r *decision.Round, claims []nodeClaim) func(*decision.Cluster) bool {
	if len(claims) == 0 {
		return func(*decision.Cluster) bool { return false }
	}
	known := topology(r.Snapshot)
	return func(c *decision.Cluster) bool {
		return slices.ContainsFunc(claims, func(claim nodeClaim) bool { return !claim.admits(c, known) })
	}
}

// nodeClaims are what the pods of the object require of nodes, one for each kind of pod.
func nodeClaims(r *decision.Request) []*workv1alpha2.NodeClaim {
	var claims []*workv1alpha2.NodeClaim
	if !r.WholeSets() {
		if r.Requirements != nil && r.Requirements.NodeClaim != nil {
			claims = append(claims, r.Requirements.NodeClaim)
		}
		return claims
	}
	for i := range r.Components {
		if needs := r.Components[i].ReplicaRequirements; needs != nil && needs.NodeClaim != nil {
			claims = append(claims, needs.NodeClaim)
		}
	}
	return claims
}

// axis is a property of nodes that clusters have too.
type topologyKey string

const (
	regionKey topologyKey = "region"
	zoneKey   topologyKey = "zone"
)

var topologyKeys = map[string]topologyKey{
	corev1.LabelTopologyRegion: regionKey, corev1.LabelFailureDomainBetaRegion: regionKey,
	corev1.LabelTopologyZone: zoneKey, corev1.LabelFailureDomainBetaZone: zoneKey,
}

func (a topologyKey) of(c *decision.Cluster) []string {
	switch {
	case a == zoneKey:
		return c.Zones
	case c.Region != "":
		return []string{c.Region}
	default:
		return nil
	}
}

// whereabouts is one requirement: a node there, or elsewhere.
type placeRequirement struct {
	key    topologyKey
	except bool
	values []string
}

// nodeClaim is what a claim says of regions and zones: all of always, and all of one of either, unless that is empty.
type nodeClaim struct {
	always []placeRequirement
	either [][]placeRequirement
}

func readClaim(claim *workv1alpha2.NodeClaim) nodeClaim {
	var out nodeClaim
	for key, value := range claim.NodeSelector {
		if along, ok := topologyKeys[key]; ok {
			out.always = append(out.always, placeRequirement{key: along, values: []string{value}})
		}
	}
	slices.SortFunc(out.always, func(a, b placeRequirement) int { return strings.Compare(a.String(), b.String()) })
	if claim.HardNodeAffinity == nil {
		return out
	}
	for _, term := range claim.HardNodeAffinity.NodeSelectorTerms {
		var all []placeRequirement
		for _, e := range term.MatchExpressions {
			along, ok := topologyKeys[e.Key]
			if ok && (e.Operator == corev1.NodeSelectorOpIn || e.Operator == corev1.NodeSelectorOpNotIn) {
				all = append(all, placeRequirement{along, e.Operator == corev1.NodeSelectorOpNotIn, e.Values})
			}
		}
		out.either = append(out.either, all)
	}
	return out
}

// places returns whether the claim rules out any place. A term that says nothing of places admits all.
func (n nodeClaim) places() bool {
	none := slices.ContainsFunc(n.either, func(term []placeRequirement) bool { return len(term) == 0 })
	return len(n.always) > 0 || len(n.either) > 0 && !none
}

func (n nodeClaim) admits(c *decision.Cluster, known map[topologyKey]map[string]bool) bool {
	in := func(w placeRequirement) bool { return w.admits(c, known) }
	all := func(term []placeRequirement) bool {
		return !slices.ContainsFunc(term, func(w placeRequirement) bool { return !in(w) })
	}
	return all(n.always) && (len(n.either) == 0 || slices.ContainsFunc(n.either, all))
}

func (w placeRequirement) admits(c *decision.Cluster, known map[topologyKey]map[string]bool) bool {
	has := w.key.of(c)
	if len(has) == 0 {
		return true // it does not say
	}
	fits := func(value string) bool { return slices.Contains(w.values, value) != w.except }
	if slices.ContainsFunc(has, fits) {
		return true
	}
	return !w.except && !slices.ContainsFunc(w.values, func(value string) bool { return known[w.key][value] })
}

// topology lists the regions and zones of the fleet.
func topology(s *decision.Snapshot) map[topologyKey]map[string]bool {
	known := map[topologyKey]map[string]bool{regionKey: {}, zoneKey: {}}
	for _, c := range s.Clusters {
		for along, values := range known {
			for _, value := range along.of(c) {
				values[value] = true
			}
		}
	}
	return known
}

// String is the claim as a reason shows it.
func (n nodeClaim) String() string {
	join := func(term []placeRequirement) string {
		words := make([]string, len(term))
		for i, w := range term {
			words[i] = w.String()
		}
		return strings.Join(words, " and ")
	}
	var either []string
	for _, term := range n.either {
		if len(term) > 0 {
			either = append(either, join(term))
		}
	}
	words := join(n.always)
	if len(either) > 0 && words != "" {
		words += " and "
	}
	return words + strings.Join(either, " or ")
}

// String is the requirement as a reason shows it.
func (w placeRequirement) String() string {
	if w.except {
		return string(w.key) + " other than " + strings.Join(w.values, ", ")
	}
	return string(w.key) + " " + strings.Join(w.values, " or ")
}
