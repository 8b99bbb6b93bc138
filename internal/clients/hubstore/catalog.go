package hubstore

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind describes one kind in one version.
type kind struct {
	gvk        schema.GroupVersionKind
	gvr        schema.GroupVersionResource
	namespaced bool
	// status is true if there is a status subresource to patch.
	status bool
	// scale is true if there is a subresource scale.
	scale bool
}

// catalog is one reading of discovery. It is immutable.
type catalog struct {
	// served has every version of every kind that can be a template.
	served map[schema.GroupVersionKind]kind
	// watched has one version of each: the one its objects are known by.
	watched map[schema.GroupVersionKind]kind
	// preferred leads from any version to the watched one.
	preferred map[schema.GroupKind]schema.GroupVersionKind
	// others has, by the watched version, the further versions that lead to it.
	others map[schema.GroupVersionKind][]string
	// unread are groups that did not answer; nothing is known about them.
	unread map[string]bool
}

// templateVerbs are what a kind must allow to be a template.
var templateVerbs = []string{"get", "list", "watch", "delete", "patch"}

// newCatalog reads discovery. Of several versions of a kind it watches the
// group's preferred one; a version in separate is a kind of its own. Groups in
// unread keep the kinds that they have in before.
func newCatalog(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, unread map[string]bool, separate []schema.GroupVersion, before *catalog) *catalog {
	c := &catalog{
		served:    map[schema.GroupVersionKind]kind{},
		watched:   map[schema.GroupVersionKind]kind{},
		preferred: map[schema.GroupKind]schema.GroupVersionKind{},
		others:    map[schema.GroupVersionKind][]string{},
		unread:    unread,
	}
	for _, list := range lists {
		c.serve(list)
	}
	c.inherit(before)
	order := versionOrder(groups)
	for gvk, k := range c.served {
		if slices.Contains(separate, gvk.GroupVersion()) {
			c.watched[gvk] = k
			continue
		}
		known, ok := c.preferred[gvk.GroupKind()]
		if !ok || precedes(gvk, known, order) {
			c.preferred[gvk.GroupKind()] = gvk
		}
	}
	for _, gvk := range c.preferred {
		c.watched[gvk] = c.served[gvk]
	}
	for gvk := range c.served {
		if _, watched := c.watched[gvk]; !watched {
			known := c.preferred[gvk.GroupKind()]
			c.others[known] = append(c.others[known], gvk.Version)
		}
	}
	return c
}

func (c *catalog) serve(list *metav1.APIResourceList) {
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return
	}
	withStatus, withScale := map[string]bool{}, map[string]bool{}
	for _, r := range list.APIResources {
		if name, found := strings.CutSuffix(r.Name, "/status"); found && slices.Contains(r.Verbs, "patch") {
			withStatus[name] = true
		}
		if name, found := strings.CutSuffix(r.Name, "/scale"); found {
			withScale[name] = true
		}
	}
	for _, r := range list.APIResources {
		gvk := gv.WithKind(r.Kind)
		if strings.Contains(r.Name, "/") || excludedKind(gvk.GroupKind()) || !allows(r.Verbs) {
			continue
		}
		c.served[gvk] = kind{gvk: gvk, gvr: gv.WithResource(r.Name), namespaced: r.Namespaced, status: withStatus[r.Name], scale: withScale[r.Name]}
	}
}

func allows(verbs metav1.Verbs) bool {
	for _, verb := range templateVerbs {
		if !slices.Contains(verbs, verb) {
			return false
		}
	}
	return true
}

// inherit keeps what was known of groups that did not answer this time.
func (c *catalog) inherit(before *catalog) {
	if before == nil {
		return
	}
	for gvk, k := range before.served {
		if _, answered := c.served[gvk]; !answered && c.unread[gvk.Group] {
			c.served[gvk] = k
		}
	}
}

// versionOrder ranks the versions of every group: the preferred one first.
func versionOrder(groups []*metav1.APIGroup) map[schema.GroupVersion]int {
	order := map[schema.GroupVersion]int{}
	for _, g := range groups {
		for i, v := range g.Versions {
			order[schema.GroupVersion{Group: g.Name, Version: v.Version}] = i + 1
		}
		order[schema.GroupVersion{Group: g.Name, Version: g.PreferredVersion.Version}] = 0
	}
	return order
}

func precedes(a, b schema.GroupVersionKind, order map[schema.GroupVersion]int) bool {
	orderA, orderB := order[a.GroupVersion()], order[b.GroupVersion()]
	if orderA != orderB {
		return orderA < orderB
	}
	return a.Version < b.Version
}

// canonical is the version that the store uses for objects of gvk.
func (c *catalog) canonical(gvk schema.GroupVersionKind) (schema.GroupVersionKind, bool) {
	if _, ok := c.watched[gvk]; ok {
		return gvk, true
	}
	preferred, ok := c.preferred[gvk.GroupKind()]
	return preferred, ok
}

// lists returns whether a definition named "plural.group", as
// CustomResourceDefinitions are, is among the kinds.
func (c *catalog) lists(definition string) bool {
	for gvk, k := range c.watched {
		if k.gvr.Resource+"."+gvk.Group == definition {
			return true
		}
	}
	return false
}

// Kind is a kind whose objects can be templates, in the version by which the store has them.
type Kind struct {
	GroupVersionKind schema.GroupVersionKind
	Resource         schema.GroupVersionResource
	Namespaced       bool
}

// Kinds lists all kinds of which objects can be templates, in no order.
func (s *Store) Kinds() []Kind {
	s.mu.RLock()
	defer s.mu.RUnlock()
	kinds := make([]Kind, 0, len(s.catalog.watched))
	for gvk, k := range s.catalog.watched {
		kinds = append(kinds, Kind{gvk, k.gvr, k.namespaced})
	}
	return kinds
}
