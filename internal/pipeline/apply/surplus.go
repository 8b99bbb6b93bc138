package apply

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// surplus are the leftovers of a Work in a member.
func surplus(conn *member.Conn, work *workv1alpha1.Work, manifests []ssa.Manifest) []ssa.Identity {
	return ssa.Leftovers(work, manifests, unlistedObjects(conn, client.ObjectKeyFromObject(work), manifests))
}

// unlistedObjects are the objects we applied for a Work that are not in its manifests. There are hardly ever any, so
// that nothing has to be decoded.
func unlistedObjects(conn *member.Conn, work types.NamespacedName, manifests []ssa.Manifest) []*unstructured.Unstructured {
	places := conn.Places(work)
	if len(places) == 0 {
		return nil
	}
	present := map[objectcache.Place]bool{}
	for _, m := range manifests {
		if m.Err != nil {
			continue
		}
		if mapping, ok := conn.Known(m.Object.GroupVersionKind()); ok {
			present[objectcache.Place{Resource: mapping.Resource, Object: types.NamespacedName{Namespace: m.Object.GetNamespace(), Name: m.Object.GetName()}}] = true
		}
	}
	var found []*unstructured.Unstructured
	for _, p := range places {
		if present[p] {
			continue
		}
		if obj, ok := conn.Lookup(p.Resource, p.Object.Namespace, p.Object.Name); ok && conn.ControlPlane().OurFields(obj) != nil {
			found = append(found, obj) // not one that others made from a copy of ours
		}
	}
	return found
}

// Deletes returns whether a Work, once it may delete, deletes an object that names it: one that it does not list any more, or that it has
// while it is being deleted. False is one that it applies, releases or does not own. The object needs no more than its metadata and its kind.
// What else is in a namespace is not considered.
func Deletes(self ownership.ControlPlane, work *workv1alpha1.Work, live *unstructured.Unstructured) bool {
	if !ssa.Belongs(self, live, client.ObjectKeyFromObject(work)) {
		return false
	}
	var owned []*unstructured.Unstructured
	if self.OurFields(live) != nil {
		owned = append(owned, live)
	}
	manifests, terms := ssa.ManifestsOf(work), objects.TermsOf(work)
	removed := ssa.Leftovers(work, manifests, owned)
	if work.DeletionTimestamp == nil {
		terms.Preserve = false // it concerns the deletion of the Work
	} else {
		for _, m := range manifests {
			if m.Err == nil {
				removed = append(removed, m.Identity())
			}
		}
	}
	of := ssa.IdentityOf(live)
	return !terms.Keep(live) && slices.ContainsFunc(removed, func(id ssa.Identity) bool {
		return id.Kind.GroupKind() == of.Kind.GroupKind() && id.Name == of.Name &&
			(id.Namespace == of.Namespace || id.Namespace == "" && of.Namespace == metav1.NamespaceDefault)
	})
}
