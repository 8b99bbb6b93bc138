package peers

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// Index has the clusters of each object that is in a group, as they were decided last, also before that is written. It is safe for
// concurrent use.
type Index struct {
	mu     sync.Mutex
	groups map[groupKey]map[types.NamespacedName][]string
	member map[types.NamespacedName][]groupKey
}

type groupKey struct {
	namespace string
	anti      bool
	group     string
}

// New returns an empty index.
func New() *Index {
	return &Index{groups: map[groupKey]map[types.NamespacedName][]string{}, member: map[types.NamespacedName][]groupKey{}}
}

// Grouped returns whether the object of a binding is in a group.
func Grouped(b workv1alpha2.Binding) bool { return len(groupsOf(b)) > 0 }

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

// Place records the clusters of an object, and returns whether that is a change for a group.
func (p *Index) Place(binding types.NamespacedName, b workv1alpha2.Binding, clusters []workv1alpha2.TargetCluster) (changed bool) {
	keys := groupsOf(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(keys) == 0 && len(p.member[binding]) == 0 {
		return false
	}
	names := make([]string, len(clusters))
	for i := range clusters {
		names[i] = clusters[i].Name
	}
	if slices.Equal(keys, p.member[binding]) && !slices.ContainsFunc(keys, func(key groupKey) bool { return !slices.Equal(p.groups[key][binding], names) }) {
		return false
	}
	p.drop(binding)
	for _, key := range keys {
		if p.groups[key] == nil {
			p.groups[key] = map[types.NamespacedName][]string{}
		}
		p.groups[key][binding] = names
	}
	if len(keys) > 0 {
		p.member[binding] = keys
	}
	return true
}

// Remove removes a binding, and returns whether it was in a group.
func (p *Index) Remove(binding types.NamespacedName) (grouped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	grouped = len(p.member[binding]) > 0
	p.drop(binding)
	return grouped
}

func (p *Index) drop(binding types.NamespacedName) {
	for _, key := range p.member[binding] {
		delete(p.groups[key], binding)
		if len(p.groups[key]) == 0 {
			delete(p.groups, key)
		}
	}
	delete(p.member, binding)
}

// Fill sets the peers of req: the other members of the groups of b.
func (p *Index) Fill(req *decision.Request, binding types.NamespacedName, b workv1alpha2.Binding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range groupsOf(b) {
		peers := &decision.Peers{Group: key.group, Clusters: map[string]struct{}{}}
		for other, clusters := range p.groups[key] {
			if other == binding {
				continue
			}
			for name := range slices.Values(clusters) {
				peers.Clusters[name] = struct{}{}
			}
		}
		if key.anti {
			req.AntiAffinityPeers = peers
		} else {
			req.AffinityPeers = peers
		}
	}
}
