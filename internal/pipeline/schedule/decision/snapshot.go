package decision

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/affinity"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
)

// Cluster describes one member. It is never changed once it is in a Snapshot.
type Cluster struct {
	affinity.Cluster
	// Leaving is true once the Cluster is being deleted.
	Leaving bool

	zoneKey  string // all zones as one text, for grouping
	Taints   []taint
	APIs     *APISet
	Headroom capacity.Headroom
}

// taint keeps things away from a cluster; its reasons are spelled once, not per decision.
type taint struct {
	corev1.Taint
	// Reason is for objects that do not tolerate it, Limited for those that tolerate it for a while.
	Reason, Limited *Reason
	// Failure is true if the Cluster does not have the taint, but counts as if it had, for objects with cluster failover: it is not ready.
	Failure bool
}

// APISet is what a cluster serves.
type APISet struct {
	source   []clusterv1alpha1.APIEnablement
	Complete bool // nothing is served beyond what is listed
	kinds    map[apiKind]struct{}
	// Content is equal for sets that are equal. Most clusters serve the same, so that one result holds for many.
	Content unique.Handle[string]
}

type apiKind struct{ groupVersion, kind string }

func (a *APISet) Serves(groupVersion, kind string) bool {
	_, ok := a.kinds[apiKind{groupVersion, kind}]
	return ok
}

func (a *APISet) ServesAny(kinds []schema.GroupVersionKind) bool {
	return slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool { return a.Serves(k.GroupVersion().String(), k.Kind) })
}

// describe reads a Cluster, and what is known of its nodes. What did not change is taken over from before, which may be nil.
func describe(c *clusterv1alpha1.Cluster, nodes *capacity.Nodes, before *Cluster) *Cluster {
	out := &Cluster{
		Cluster:  affinity.Of(c),
		Leaving:  !c.DeletionTimestamp.IsZero(),
		APIs:     describeAPIs(c, before),
		Headroom: capacity.HeadroomOf(c).On(nodes),
	}
	out.zoneKey = strings.Join(out.Zones, ",")
	for _, t := range c.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute {
			text := t.ToString()
			out.Taints = append(out.Taints, taint{
				Taint: t, Reason: NewReason("has taint "+text, "have taint "+text),
				Limited: NewReason("has taint "+text+", tolerated for some time only", "have taint "+text+", tolerated for some time only"),
			})
		}
	}
	if t := eviction.Failure(c); t != nil {
		reason := NewReason("is not ready", "are not ready")
		out.Taints = append(out.Taints, taint{Taint: *t, Reason: reason, Limited: reason, Failure: true})
	}
	return out
}

func describeAPIs(c *clusterv1alpha1.Cluster, before *Cluster) *APISet {
	complete := meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionCompleteAPIEnablements)
	if before != nil && before.APIs.Complete == complete && reflect.DeepEqual(before.APIs.source, c.Status.APIEnablements) {
		return before.APIs
	}
	out := &APISet{source: c.Status.APIEnablements, Complete: complete, kinds: map[apiKind]struct{}{}}
	var content strings.Builder
	fmt.Fprint(&content, complete)
	for _, e := range c.Status.APIEnablements {
		content.WriteString("\n" + e.GroupVersion)
		for _, r := range e.Resources {
			out.kinds[apiKind{e.GroupVersion, r.Kind}] = struct{}{}
			content.WriteString(" " + r.Kind)
		}
	}
	out.Content = unique.Make(content.String())
	return out
}

// Snapshot is the fleet at one moment. It is immutable and may be read by any number of decisions at once; With makes the next one.
type Snapshot struct {
	Clusters []*Cluster // by name
	Index    map[string]int
	Taken    []capacity.Usage // what is reserved in each of clusters
	Plans    *plans           // those for these clusters, whatever is available in them
}

// NewSnapshot describes clusters. It keeps references into them: they must not change afterwards.
func NewSnapshot(clusters []*clusterv1alpha1.Cluster) *Snapshot {
	return (&Snapshot{}).With(Change{Present: clusters})
}

// Change is the difference between two snapshots.
type Change struct {
	// Present are clusters that joined or changed.
	Present []*clusterv1alpha1.Cluster
	// Nodes are the nodes of these, as far as they are known.
	Nodes map[string]*capacity.Nodes
	// Gone names clusters that left.
	Gone []string
	// Taken is what is reserved in clusters and not in their status.
	Taken map[string]capacity.Usage
}

// With returns a snapshot in which change has happened, sharing with s all that has not changed.
func (s *Snapshot) With(change Change) *Snapshot {
	next := *s
	if len(change.Present) > 0 || next.Plans == nil {
		next.Clusters = slices.Clone(s.Clusters)
	}
	replan := next.Plans == nil
	var joined []*Cluster
	for _, c := range change.Present {
		i, ok := s.Index[c.Name]
		if !ok {
			joined = append(joined, describe(c, change.Nodes[c.Name], nil))
			continue
		}
		before := next.Clusters[i]
		next.Clusters[i] = describe(c, change.Nodes[c.Name], before)
		replan = replan || Differs(before, next.Clusters[i])
	}
	if len(joined) > 0 || slices.ContainsFunc(change.Gone, s.has) {
		next.reorder(s, joined, change.Gone)
		replan = true
	} else if len(change.Taken) > 0 {
		next.Taken = slices.Clone(s.Taken)
	}
	if replan {
		next.Plans = &plans{}
	}
	for name, usage := range change.Taken {
		if i, ok := next.Index[name]; ok {
			next.Taken[i] = usage
		}
	}
	return &next
}

// reorder makes a new list of clusters, with those that joined, without those that are gone, and of what is reserved in them.
func (s *Snapshot) reorder(before *Snapshot, joined []*Cluster, gone []string) {
	s.Clusters = slices.DeleteFunc(slices.Concat(s.Clusters, joined), func(c *Cluster) bool { return slices.Contains(gone, c.Name) })
	slices.SortFunc(s.Clusters, func(a, b *Cluster) int { return strings.Compare(a.Name, b.Name) })
	s.Index, s.Taken = make(map[string]int, len(s.Clusters)), make([]capacity.Usage, len(s.Clusters))
	for i, c := range s.Clusters {
		s.Index[c.Name] = i
		if was, ok := before.Index[c.Name]; ok {
			s.Taken[i] = before.Taken[was]
		}
	}
}

func (s *Snapshot) has(name string) bool {
	_, ok := s.Index[name]
	return ok
}

func (s *Snapshot) hasAll(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !s.has(name) })
}

// Get returns the cluster of that name, or nil.
func (s *Snapshot) Get(name string) *Cluster {
	if i, ok := s.Index[name]; ok {
		return s.Clusters[i]
	}
	return nil
}

// Len returns how many clusters there are.
func (s *Snapshot) Len() int { return len(s.Clusters) }

// Differs returns whether two descriptions of a cluster can lead to different candidates, apart from its headroom. Either may be nil.
func Differs(a, b *Cluster) bool {
	if a == nil || b == nil {
		return a != b
	}
	return a.Provider != b.Provider || a.Region != b.Region || a.Leaving != b.Leaving ||
		a.APIs.Content != b.APIs.Content || a.zoneKey != b.zoneKey || !maps.Equal(a.Labels, b.Labels) ||
		!slices.EqualFunc(a.Taints, b.Taints, func(x, y taint) bool {
			return x.Key == y.Key && x.Value == y.Value && x.Effect == y.Effect && x.Failure == y.Failure
		})
}

// Remaining lists the targets whose clusters stay.
func (s *Snapshot) Remaining(current []workv1alpha2.TargetCluster) []workv1alpha2.TargetCluster {
	out := make([]workv1alpha2.TargetCluster, 0, len(current))
	for _, t := range current {
		if cluster := s.Get(t.Name); cluster != nil && !cluster.Leaving {
			out = append(out, t)
		}
	}
	return out
}
