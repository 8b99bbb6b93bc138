package decision

import (
	"fmt"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/affinity"
)

// Selector selects clusters by a ClusterAffinity, with a reason for those that it drops.
type Selector struct {
	*affinity.Selector
	reasons [affinity.Parts]*Reason
}

// CompileAffinity makes a selector; path names the affinity in reasons, as a user finds it in the placement.
func CompileAffinity(path string, a *policyv1alpha1.ClusterAffinity) (*Selector, error) {
	compiled, err := affinity.Compile(path, a)
	if err != nil {
		return nil, err
	}
	return &Selector{compiled, [affinity.Parts]*Reason{
		affinity.Exclude: same("excluded by " + path + ".exclude"),
		affinity.Names:   NewReason("is not in "+path+".clusterNames", "are not in "+path+".clusterNames"),
		affinity.Labels:  NewReason("does not match "+path+".labelSelector", "do not match "+path+".labelSelector"),
		affinity.Fields:  NewReason("does not match "+path+".fieldSelector", "do not match "+path+".fieldSelector"),
	}}, nil
}

// Drops returns why s does not select c, or nil if it does.
func (s *Selector) Drops(c *Cluster) *Reason { return s.reasons[s.Mismatch(&c.Cluster)] }

// tiers are the base affinity of a term, then its overflow affinities.
type tiers struct {
	Selectors []*Selector
	noTier    *Reason
}

func CompileTerm(t Term) (tiers, error) {
	base, err := CompileAffinity(t.Path(), t.Affinity)
	if err != nil {
		return tiers{}, err
	}
	out := tiers{Selectors: []*Selector{base}}
	if len(t.Overflow) > 0 {
		out.noTier = NewReason("is in no tier of "+t.Path(), "are in no tier of "+t.Path())
	}
	for i := range t.Overflow {
		o := &t.Overflow[i]
		s, err := CompileAffinity(fmt.Sprintf("%s.overflowAffinities[%s]", t.Path(), o.AffinityName), &o.ClusterAffinity)
		if err != nil {
			return tiers{}, err
		}
		out.Selectors = append(out.Selectors, s)
	}
	return out, nil
}

// Of returns the first tier that c belongs to, or why it belongs to none.
func (t *tiers) Of(c *Cluster) (int, *Reason) {
	reason := t.Selectors[0].Drops(c)
	if reason == nil {
		return 0, nil
	}
	for i, s := range t.Selectors[1:] {
		if s.Drops(c) == nil {
			return i + 1, nil
		}
	}
	if t.noTier != nil {
		return 0, t.noTier
	}
	return 0, reason
}
