package migration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// Class is how the new control plane would treat an object in a member.
type Class string

// The classes.
const (
	// Changed: it would write something else than the old one did last.
	Changed Class = "Changed"
	// Orphaned: it has no Work for the object, which then stays in the member without a manager.
	Orphaned Class = "Orphaned"
	// Added: only the new control plane has a Work for it.
	Added Class = "Added"
)

// Difference is an object in a member that the two control planes do not agree about.
type Difference struct {
	Cluster string `json:"cluster"`
	Class   Class  `json:"class"`
	Object  string `json:"object"`
	// Fields are the paths that differ, if it is changed.
	Fields []string `json:"fields,omitempty"`
}

// Comparison is what both control planes write to the members.
type Comparison struct {
	// Same is the number of objects in members that both write in the same way.
	Same        int          `json:"same"`
	Differences []Difference `json:"differences,omitempty"`
}

// contents are the manifests of the Works of a control plane, by cluster and object.
type contents map[string]map[string]*manifest

// manifest is an object as a Work has it.
type manifest struct {
	*unstructured.Unstructured
	// own is true for what a control plane writes for itself: the rights of its account that impersonates, and the definitions of
	// ServiceExports and ServiceImports, which Karmada leaves to users. They may differ: a definition that is there stays as it is.
	own bool
}

// Compare reads the Works of both control planes for the Clusters of the source.
func Compare(ctx context.Context, source, target *ControlPlane) (*Comparison, error) {
	before, err := source.contents(ctx)
	if err != nil {
		return nil, err
	}
	after, err := target.contents(ctx)
	if err != nil {
		return nil, err
	}
	names, err := source.clusterNames(ctx)
	if err != nil {
		return nil, err
	}
	c := &Comparison{}
	for _, cluster := range names {
		c.compare(cluster, before[cluster], after[cluster])
	}
	return c, nil
}

// Settled compares until there is no difference, or the differences are the same for a while, or patience ends.
func Settled(ctx context.Context, source, target *ControlPlane, patience time.Duration) (last *Comparison, err error) {
	const still = 20 // reads without a change: ten seconds
	unchanged := 0
	waited := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		now, err := Compare(ctx, source, target)
		if err != nil {
			return false, err
		}
		if last != nil && equality.Semantic.DeepEqual(last, now) {
			unchanged++
		} else {
			unchanged = 0
		}
		last = now
		return len(now.Differences) == 0 || unchanged >= still, nil
	})
	if waited != nil && !wait.Interrupted(waited) {
		return last, waited
	}
	return last, nil
}

func (c *Comparison) compare(cluster string, before, after map[string]*manifest) {
	all := sets.KeySet(before).Union(sets.KeySet(after))
	for _, object := range sets.List(all) {
		was, is := before[object], after[object]
		switch {
		case was != nil && was.own || is != nil && is.own:
		case is == nil:
			c.Differences = append(c.Differences, Difference{cluster, Orphaned, object, nil})
		case was == nil:
			c.Differences = append(c.Differences, Difference{cluster, Added, object, nil})
		default:
			if fields := differing("", content(was.Unstructured), content(is.Unstructured)); len(fields) > 0 {
				c.Differences = append(c.Differences, Difference{cluster, Changed, object, fields})
				continue
			}
			c.Same++
		}
	}
}

// content is what of a manifest matters in a member: the marks of a control plane are no part of it.
func content(manifest *unstructured.Unstructured) map[string]any {
	kept := manifest.DeepCopy()
	metadata, _ := kept.Object["metadata"].(map[string]any)
	delete(metadata, "creationTimestamp")
	for _, field := range []string{"labels", "annotations"} {
		keys, _ := metadata[field].(map[string]any)
		for key := range keys {
			if workv1alpha1.IsOwnershipKey(key) || isClaim(key) {
				delete(keys, key)
			}
		}
		if len(keys) == 0 {
			delete(metadata, field)
		}
	}
	delete(kept.Object, "status")
	return kept.Object
}

func isClaim(key string) bool {
	return strings.HasPrefix(key, "propagationpolicy.karmada.io/") || strings.HasPrefix(key, "clusterpropagationpolicy.karmada.io/")
}

// maxFields bounds the paths of one difference.
const maxFields = 10

// differing returns the paths at which two values differ. Null is as good as absent: an API server ignores it.
func differing(path string, a, b any) []string {
	x, xIsMap := a.(map[string]any)
	y, yIsMap := b.(map[string]any)
	if !xIsMap && a != nil || !yIsMap && b != nil || !xIsMap && !yIsMap {
		if equality.Semantic.DeepEqual(a, b) {
			return nil
		}
		return []string{path}
	}
	var found []string
	for _, key := range sets.List(sets.KeySet(x).Union(sets.KeySet(y))) {
		if len(found) < maxFields {
			found = append(found, differing(strings.TrimPrefix(path+"."+key, "."), x[key], y[key])...)
		}
	}
	return found
}

// contents reads the manifests of all Works that are applied.
func (c *ControlPlane) contents(ctx context.Context) (contents, error) {
	all := contents{}
	err := c.each(ctx, workv1alpha1.SchemeGroupVersion.WithResource("works"), "", func(work *unstructured.Unstructured) error {
		cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.GetNamespace())
		if !ok || work.GetDeletionTimestamp() != nil || workv1alpha1.IsRecord(work) {
			return nil
		}
		manifests, _, err := unstructured.NestedSlice(work.Object, "spec", "workload", "manifests")
		if err != nil {
			return fmt.Errorf("reading Work %s/%s: %w", work.GetNamespace(), work.GetName(), err)
		}
		if all[cluster] == nil {
			all[cluster] = map[string]*manifest{}
		}
		for _, m := range manifests {
			if object, ok := m.(map[string]any); ok {
				obj := &unstructured.Unstructured{Object: object}
				own := obj.GetLabels()[clusterv1alpha1.SystemLabel] == clusterv1alpha1.SystemLabelValue ||
					work.GetLabels()[multiclusterv1beta1.ExportRoleLabel] == multiclusterv1beta1.RoleDefinition
				all[cluster][describe(obj)+" ("+work.GetName()+")"] = &manifest{obj, own}
			}
		}
		return nil
	})
	return all, err
}

func (c *ControlPlane) clusterNames(ctx context.Context) ([]string, error) {
	var names []string
	err := c.each(ctx, clusterv1alpha1.SchemeGroupVersion.WithResource("clusters"), "", func(cluster *unstructured.Unstructured) error {
		names = append(names, cluster.GetName())
		return nil
	})
	slices.Sort(names)
	return names, err
}
