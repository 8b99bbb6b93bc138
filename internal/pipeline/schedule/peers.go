package schedule

import (
	"slices"
	"sync"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// peerIndex knows where the objects of each affinity and anti-affinity group
// are, decisions included that are not written yet. It is safe for concurrent use.
type peerIndex struct {
	mu     sync.Mutex
	groups map[groupKey]map[Item][]string
	member map[Item][]groupKey
}

type groupKey struct {
	namespace string
	anti      bool
	group     string
}

func newPeerIndex() *peerIndex {
	return &peerIndex{groups: map[groupKey]map[Item][]string{}, member: map[Item][]groupKey{}}
}

func groupsOf(b workv1alpha2.Binding) []groupKey {
	g := b.BindingSpec().WorkloadAffinityGroups
	if g == nil {
		return nil
	}
	var keys []groupKey
	if g.AffinityGroup != "" {
		keys = append(keys, groupKey{b.GetNamespace(), false, g.AffinityGroup})
	}
	if g.AntiAffinityGroup != "" {
		keys = append(keys, groupKey{b.GetNamespace(), true, g.AntiAffinityGroup})
	}
	return keys
}

// place notes that b is in clusters, and says whether that is news to a group.
func (p *peerIndex) place(it Item, b workv1alpha2.Binding, clusters []workv1alpha2.TargetCluster) (news bool) {
	keys := groupsOf(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(keys) == 0 && len(p.member[it]) == 0 {
		return false
	}
	names := make([]string, len(clusters))
	for i := range clusters {
		names[i] = clusters[i].Name
	}
	if slices.Equal(keys, p.member[it]) && !slices.ContainsFunc(keys, func(key groupKey) bool { return !slices.Equal(p.groups[key][it], names) }) {
		return false
	}
	p.remove(it)
	for _, key := range keys {
		if p.groups[key] == nil {
			p.groups[key] = map[Item][]string{}
		}
		p.groups[key][it] = names
	}
	if len(keys) > 0 {
		p.member[it] = keys
	}
	return true
}

// forget notes that the binding is gone, and says whether it was in a group.
func (p *peerIndex) forget(it Item) (grouped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	grouped = len(p.member[it]) > 0
	p.remove(it)
	return grouped
}

func (p *peerIndex) remove(it Item) {
	for _, key := range p.member[it] {
		delete(p.groups[key], it)
		if len(p.groups[key]) == 0 {
			delete(p.groups, key)
		}
	}
	delete(p.member, it)
}

// fill sets the peers of req: the other members of the groups of b.
func (p *peerIndex) fill(req *decision.Request, it Item, b workv1alpha2.Binding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range groupsOf(b) {
		peers := &decision.Peers{Group: key.group, Clusters: map[string]struct{}{}}
		for other, clusters := range p.groups[key] {
			if other == it {
				continue
			}
			for name := range slices.Values(clusters) {
				peers.Clusters[name] = struct{}{}
			}
		}
		if key.anti {
			req.Rivals = peers
		} else {
			req.Companions = peers
		}
	}
}
