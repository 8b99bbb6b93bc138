package decision

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Reason is why a cluster was dropped, as the text that follows a count: "1 lacks …", "7 lack …". Equal reasons are counted
// together.
type Reason struct {
	One, Many string
}

// String is the reason for one cluster.
func (r Reason) String() string { return r.One }

// Because makes a reason.
func NewReason(one, many string) *Reason { return &Reason{One: one, Many: many} }

// same makes a reason whose text does not depend on the count.
func same(words string) *Reason { return &Reason{One: words, Many: words} }

// namesPerReason is how many clusters a message names per reason; the rest is counted.
const namesPerReason = 5

type reasonGroup struct {
	reason   Reason
	clusters []string
}

// groupReasons counts the dropped clusters by reason, the most frequent first.
func groupReasons(candidates []Candidate) []reasonGroup {
	index := map[Reason]int{}
	var groups []reasonGroup
	for i := range candidates {
		v := &candidates[i]
		if v.Reason == nil {
			continue
		}
		at, ok := index[*v.Reason]
		if !ok {
			at = len(groups)
			index[*v.Reason] = at
			groups = append(groups, reasonGroup{reason: *v.Reason})
		}
		groups[at].clusters = append(groups[at].clusters, v.Cluster.Name)
	}
	slices.SortStableFunc(groups, func(a, b reasonGroup) int {
		return cmp.Or(-cmp.Compare(len(a.clusters), len(b.clusters)), strings.Compare(a.reason.One, b.reason.One))
	})
	return groups
}

// DroppedMessage returns how many clusters fit and why the others do not, for example "0/12 clusters fit: 7 lack
// apps.example.io/v1 Widget, 5 have taint env=test:NoSchedule (in this order: m1, m2, …; m8, …)".
func DroppedMessage(candidates []Candidate) string {
	if len(candidates) == 0 {
		return "0/0 clusters fit: no cluster has joined"
	}
	groups := groupReasons(candidates)
	dropped := 0
	var counts, names []string
	for _, g := range groups {
		dropped += len(g.clusters)
		words := g.reason.Many
		if len(g.clusters) == 1 {
			words = g.reason.One
		}
		counts = append(counts, fmt.Sprintf("%d %s", len(g.clusters), words))
		names = append(names, FirstNames(g.clusters))
	}
	text := fmt.Sprintf("%d/%d clusters fit", len(candidates)-dropped, len(candidates))
	switch len(groups) {
	case 0:
		return text
	case 1:
		return fmt.Sprintf("%s: %s (%s)", text, counts[0], names[0])
	default:
		return fmt.Sprintf("%s: %s (in this order: %s)", text, strings.Join(counts, ", "), strings.Join(names, "; "))
	}
}

func FirstNames(names []string) string {
	if len(names) <= namesPerReason {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:namesPerReason], ", "), len(names)-namesPerReason)
}

// ShortageMessage returns how many replicas are available, and where. What an object has already counts if it is divided anew, and if a part of it
// may be placed: the message of that part is then the same when it is decided again, and is not written again.
func ShortageMessage(req *Request, chosen []*Candidate, missing int64) string {
	if req.WholeSets() {
		return "Clusters available replicas 0 are not enough to schedule. No chosen cluster has capacity for a whole set of components"
	}
	var available int64
	parts := make([]string, 0, namesPerReason)
	for _, v := range chosen {
		n := int64(v.Allocatable)
		if req.Fresh || req.Partial {
			n = int64(v.Available)
		}
		available += n
		if len(parts) < namesPerReason {
			parts = append(parts, fmt.Sprintf("%s for %d", v.Cluster.Name, n))
		}
	}
	text := fmt.Sprintf("Clusters available replicas %d are not enough to schedule. %d of %d replicas found no place; available for more: %s",
		available, missing, req.Replicas, strings.Join(parts, ", "))
	if more := len(chosen) - len(parts); more > 0 {
		text += fmt.Sprintf(" and %d more clusters", more)
	}
	return text
}
