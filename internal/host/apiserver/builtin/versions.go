package builtin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
)

// apart are group versions whose objects are not those of the group's preferred version under another name. Who
// follows the preferred versions only would never see them.
func apart() []schema.GroupVersion { return []schema.GroupVersion{resourcev1alpha2.GroupVersion} }

// everything is discovery that lists, besides the preferred version of every resource, the versions that are stored
// apart from it.
type everything struct{ discovery.DiscoveryInterface }

// ServerPreferredResources lists every resource that has objects of its own.
func (e everything) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	preferred, err := e.DiscoveryInterface.ServerPreferredResources()
	return e.withApart(preferred, err, func(metav1.APIResource) bool { return true })
}

// ServerPreferredNamespacedResources lists those of them that are in namespaces.
func (e everything) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	preferred, err := e.DiscoveryInterface.ServerPreferredNamespacedResources()
	return e.withApart(preferred, err, func(resource metav1.APIResource) bool { return resource.Namespaced })
}

// withApart adds to the lists what they lack. Like upstream's discovery it keeps what was found when something was
// not, and names in its error which group versions are missing.
func (e everything) withApart(lists []*metav1.APIResourceList, err error, wanted func(metav1.APIResource) bool) ([]*metav1.APIResourceList, error) {
	if len(lists) == 0 {
		return lists, err
	}
	failed := map[schema.GroupVersion]error{}
	for _, gv := range apart() {
		served, failure := e.ServerResourcesForGroupVersion(gv.String())
		if failure != nil {
			failed[gv] = failure
			continue
		}
		listed := names(lists, gv)
		list := &metav1.APIResourceList{GroupVersion: gv.String()}
		for _, resource := range served.APIResources {
			if wanted(resource) && !strings.Contains(resource.Name, "/") && !listed.Has(resource.Name) {
				list.APIResources = append(list.APIResources, resource)
			}
		}
		lists = append(lists, list)
	}
	if len(failed) == 0 {
		return lists, err
	}
	if earlier, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); ok {
		maps.Copy(failed, earlier.Groups)
	}
	return lists, &discovery.ErrGroupDiscoveryFailed{Groups: failed}
}

// only leaves in the lists, which it does not change, the resources that wanted selects.
func only(ctx context.Context, lists []*metav1.APIResourceList, wanted func(context.Context, schema.GroupResource) bool) []*metav1.APIResourceList {
	kept := make([]*metav1.APIResourceList, 0, len(lists))
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			kept = append(kept, list)
			continue
		}
		rest := *list
		rest.APIResources = slices.DeleteFunc(slices.Clone(list.APIResources), func(r metav1.APIResource) bool {
			return !wanted(ctx, gv.WithResource(r.Name).GroupResource())
		})
		kept = append(kept, &rest)
	}
	return kept
}

// inStoredVersion has the resources whose versions a webhook makes listed in the one that is stored. A list in another fails for all
// namespaces while one object cannot be converted, as where the webhook runs in members only.
func inStoredVersion(lists []*metav1.APIResourceList, stored func(schema.GroupResource) string) []*metav1.APIResourceList {
	var moved []*metav1.APIResourceList
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		list.APIResources = slices.DeleteFunc(list.APIResources, func(r metav1.APIResource) bool {
			version := stored(gv.WithResource(r.Name).GroupResource())
			if version == "" || version == gv.Version {
				return false
			}
			if r.Version != "" {
				r.Version = version
			}
			moved = append(moved, &metav1.APIResourceList{
				GroupVersion: schema.GroupVersion{Group: gv.Group, Version: version}.String(), APIResources: []metav1.APIResource{r},
			})
			return true
		})
	}
	return append(lists, moved...)
}

// names are the resources of a group version that the lists have.
func names(lists []*metav1.APIResourceList, gv schema.GroupVersion) sets.Set[string] {
	found := sets.New[string]()
	for _, list := range lists {
		if list.GroupVersion != gv.String() {
			continue
		}
		for _, resource := range list.APIResources {
			found.Insert(resource.Name)
		}
	}
	return found
}
