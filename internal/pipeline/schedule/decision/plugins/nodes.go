package plugins

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// nodeTopology drops clusters without nodes that suit the pods' node selector, required node affinity and tolerations, where available
// replicas decide how much a cluster receives: such a cluster has none. Of a cluster that does not report its nodes the regions and
// zones count, see topologyCheck.
func nodeTopology(r *decision.Round) decision.Check {
	byTopology := topologyCheck(r)
	if !r.Request.ByAvailableReplicas() || !r.Request.ClaimsNodes() {
		return byTopology
	}
	demand := r.Request.Demand()
	unsuited := decision.NewReason("has no nodes that suit the pods' node selector, node affinity and tolerations",
		"have no nodes that suit the pods' node selector, node affinity and tolerations")
	return func(v *decision.Candidate) *decision.Reason {
		switch {
		case !v.Cluster.Headroom.HasNodes():
			if byTopology == nil {
				return nil
			}
			return byTopology(v)
		case v.Held || v.Cluster.Headroom.Admits(&demand):
			return nil
		default:
			return unsuited
		}
	}
}

// topologyCheck drops clusters outside the regions and zones that the pods' node selector or required node affinity names. The spec of
// a Cluster has nothing about nodes but their regions and zones, so that other labels are not considered. A value that no cluster of
// the fleet has rules out none: nodes may have other labels than clusters.
func topologyCheck(r *decision.Round) decision.Check {
	claims := nodeClaims(r.Request)
	if len(claims) == 0 {
		return nil
	}
	var words []string
	for _, claim := range claims {
		if text := claim.String(); !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	where := strings.Join(words, " and ")
	outside := OutsideNodes(r)
	return dropIf("has no nodes in "+where, "have no nodes in "+where, func(v *decision.Candidate) bool { return !v.Held && outside(v.Cluster) })
}

// OutsideNodes returns a function that returns whether a cluster that does not report its nodes has no available replicas because they
// are in the wrong place.
func OutsideNodes(r *decision.Round) func(*decision.Cluster) bool {
	claims := nodeClaims(r.Request)
	if len(claims) == 0 {
		return func(*decision.Cluster) bool { return false }
	}
	known := map[string]bool{} // regions and zones of the fleet, each with its key
	for _, c := range r.Snapshot.Clusters {
		for _, key := range []topologyKey{regionKey, zoneKey} {
			for _, value := range key.of(c) {
				known[string(key)+" "+value] = true
			}
		}
	}
	return func(c *decision.Cluster) bool {
		met := func(term []placeRequirement) bool {
			return !slices.ContainsFunc(term, func(p placeRequirement) bool { return !p.admits(c, known) })
		}
		return !c.Headroom.HasNodes() && slices.ContainsFunc(claims, func(claim nodeClaim) bool { return !slices.ContainsFunc(claim, met) })
	}
}

// nodeClaim is what one kind of pod requires of the regions and zones of nodes: all requirements of one of its terms.
type nodeClaim [][]placeRequirement

// placeRequirement requires nodes in one of the regions or zones, or in others than these.
type placeRequirement struct {
	key    topologyKey
	except bool
	values []string
}

// topologyKey is a property of nodes that clusters have too.
type topologyKey string

const (
	regionKey topologyKey = "region"
	zoneKey   topologyKey = "zone"
)

var topologyKeys = map[string]topologyKey{
	corev1.LabelTopologyRegion: regionKey, corev1.LabelFailureDomainBetaRegion: regionKey,
	corev1.LabelTopologyZone: zoneKey, corev1.LabelFailureDomainBetaZone: zoneKey,
}

func (k topologyKey) of(c *decision.Cluster) []string {
	switch {
	case k == zoneKey:
		return c.Zones
	case c.Region != "":
		return []string{c.Region}
	default:
		return nil
	}
}

// nodeClaims are those of the pods of the object that rule out some place, if available replicas decide how much a cluster receives.
func nodeClaims(r *decision.Request) []nodeClaim {
	if !r.ByAvailableReplicas() {
		return nil
	}
	var claims []nodeClaim
	add := func(claim *workv1alpha2.NodeClaim) {
		if claim == nil {
			return
		}
		read := readClaim(claim)
		if !slices.ContainsFunc(read, func(term []placeRequirement) bool { return len(term) == 0 }) {
			claims = append(claims, read)
		}
	}
	if !r.WholeSets() {
		if r.Requirements != nil {
			add(r.Requirements.NodeClaim)
		}
		return claims
	}
	for i := range r.Components {
		if needs := r.Components[i].ReplicaRequirements; needs != nil {
			add(needs.NodeClaim)
		}
	}
	return claims
}

// readClaim reads what a claim requires of regions and zones. Each term has the requirements of the node selector, too.
func readClaim(claim *workv1alpha2.NodeClaim) nodeClaim {
	var always []placeRequirement
	for _, label := range slices.Sorted(maps.Keys(claim.NodeSelector)) {
		if key, ok := topologyKeys[label]; ok {
			always = append(always, placeRequirement{key: key, values: []string{claim.NodeSelector[label]}})
		}
	}
	if claim.HardNodeAffinity == nil || len(claim.HardNodeAffinity.NodeSelectorTerms) == 0 {
		return nodeClaim{always}
	}
	var out nodeClaim
	for _, term := range claim.HardNodeAffinity.NodeSelectorTerms {
		all := slices.Clone(always)
		for _, e := range term.MatchExpressions {
			key, ok := topologyKeys[e.Key]
			if ok && (e.Operator == corev1.NodeSelectorOpIn || e.Operator == corev1.NodeSelectorOpNotIn) {
				all = append(all, placeRequirement{key, e.Operator == corev1.NodeSelectorOpNotIn, e.Values})
			}
		}
		out = append(out, all)
	}
	return out
}

// admits returns whether nodes of a cluster may meet the requirement. A cluster without regions or zones may have nodes anywhere.
func (p placeRequirement) admits(c *decision.Cluster, known map[string]bool) bool {
	has := p.key.of(c)
	if len(has) == 0 || slices.ContainsFunc(has, func(value string) bool { return slices.Contains(p.values, value) != p.except }) {
		return true
	}
	return !p.except && !slices.ContainsFunc(p.values, func(value string) bool { return known[string(p.key)+" "+value] })
}

// String is the claim as a reason shows it.
func (n nodeClaim) String() string {
	terms := make([]string, len(n))
	for i, term := range n {
		words := make([]string, len(term))
		for j, p := range term {
			words[j] = string(p.key) + " " + strings.Join(p.values, " or ")
			if p.except {
				words[j] = string(p.key) + " other than " + strings.Join(p.values, ", ")
			}
		}
		terms[i] = strings.Join(words, " and ")
	}
	return strings.Join(terms, " or ")
}
