package member

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Mapping means under which resource a kind is served.
type Mapping struct {
	Resource   schema.GroupVersionResource
	Namespaced bool
}

// refreshPause bounds how often a group version is tried again because of a kind it does not have.
const refreshPause = 500 * time.Millisecond

// mapper caches what a member serves, one group version at a time: only those that are used are read.
type mapper struct {
	clock  clock.PassiveClock
	served func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
	// described reads the versions of a group.
	described func(ctx context.Context, group string) (*metav1.APIGroup, error)

	mu     sync.Mutex
	groups map[schema.GroupVersion]*groupMappings
}

type groupMappings struct {
	mu    sync.Mutex // held while the member is read, so that it is read once
	read  time.Time
	kinds map[string]Mapping
}

// Mapping returns under which resource the member serves a kind. A kind it does not serve gives an error for which
// meta.IsNoMatchError is true; it is found soon after its CustomResourceDefinition is established.
func (c *Conn) Mapping(ctx context.Context, gvk schema.GroupVersionKind) (Mapping, error) {
	return c.mapper.mapping(ctx, gvk)
}

// AnyMapping is Mapping of a kind in whichever version the member serves it: an object that was written in one version is
// there in all. It reads from the member each time.
func (c *Conn) AnyMapping(ctx context.Context, kind schema.GroupKind) (Mapping, error) {
	missing := &meta.NoKindMatchError{GroupKind: kind}
	versions := []metav1.GroupVersionForDiscovery{{Version: "v1"}} // of the group without a name
	if kind.Group != "" {
		group, err := c.mapper.described(ctx, kind.Group)
		if apierrors.IsNotFound(err) {
			return Mapping{}, missing
		}
		if err != nil {
			return Mapping{}, fmt.Errorf("reading from the member the versions of %s: %w", kind.Group, err)
		}
		versions = append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...)
	}
	for _, v := range versions {
		c.mapper.forget(schema.GroupVersion{Group: kind.Group, Version: v.Version})
		found, err := c.mapper.mapping(ctx, kind.WithVersion(v.Version))
		if !meta.IsNoMatchError(err) {
			return found, err
		}
	}
	return Mapping{}, missing
}

// Known is Mapping from memory alone.
func (c *Conn) Known(gvk schema.GroupVersionKind) (Mapping, bool) {
	g := c.mapper.group(gvk.GroupVersion())
	g.mu.Lock()
	defer g.mu.Unlock()
	m, ok := g.kinds[gvk.Kind]
	return m, ok
}

// Forget makes the next Mapping of a group version read from the member: what is in memory is wrong.
func (c *Conn) Forget(gv schema.GroupVersion) { c.mapper.forget(gv) }

func (m *mapper) forget(gv schema.GroupVersion) {
	g := m.group(gv)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kinds, g.read = nil, time.Time{}
}

func (m *mapper) group(gv schema.GroupVersion) *groupMappings {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, ok := m.groups[gv]
	if !ok {
		if m.groups == nil {
			m.groups = map[schema.GroupVersion]*groupMappings{}
		}
		g = &groupMappings{}
		m.groups[gv] = g
	}
	return g
}

func (m *mapper) mapping(ctx context.Context, gvk schema.GroupVersionKind) (Mapping, error) {
	g := m.group(gvk.GroupVersion())
	controlloop.Lock(ctx, &g.mu)
	defer g.mu.Unlock()
	if known, ok := g.kinds[gvk.Kind]; ok {
		return known, nil
	}
	missing := &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	if !g.read.IsZero() && m.clock.Since(g.read) < refreshPause {
		return Mapping{}, missing
	}
	list, err := m.served(ctx, gvk.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return Mapping{}, fmt.Errorf("reading from the member the resources of %s: %w", gvk.GroupVersion(), err)
	}
	if list != nil {
		if err := bounds.Kinds.Check(kept(list)); err != nil {
			return Mapping{}, fmt.Errorf("reading from the member the resources of %s: %w", gvk.GroupVersion(), err)
		}
	}
	g.read = m.clock.Now()
	g.kinds = mappingsOf(gvk.GroupVersion(), list)
	if known, ok := g.kinds[gvk.Kind]; ok {
		return known, nil
	}
	return Mapping{}, missing
}

// kept is what is kept of a list of resources.
func kept(list *metav1.APIResourceList) (sum bounds.Amount) {
	for i := range list.APIResources {
		sum = sum.Plus(bounds.Amount{Objects: 1, Bytes: int64(len(list.APIResources[i].Name) + len(list.APIResources[i].Kind))})
	}
	return sum
}

func mappingsOf(gv schema.GroupVersion, list *metav1.APIResourceList) map[string]Mapping {
	kinds := map[string]Mapping{}
	if list == nil {
		return kinds
	}
	for _, r := range list.APIResources {
		if _, taken := kinds[r.Kind]; taken || strings.Contains(r.Name, "/") {
			continue
		}
		kinds[r.Kind] = Mapping{Resource: gv.WithResource(r.Name), Namespaced: r.Namespaced}
	}
	return kinds
}
