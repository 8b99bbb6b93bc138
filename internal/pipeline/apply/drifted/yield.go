package drifted

import (
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// Rules say which fields of an object are left to its member. All are pointers as [ssa.Expand] reads them.
type Rules struct {
	// Left are fields that keep the value of the member, and are not applied but with a new object.
	Left []string
	// Shared are lists in which items that others add stay.
	Shared []string
}

// Yielded is an object with the values of the member at the fields that are left to it.
type Yielded struct {
	Object *unstructured.Unstructured
	// Paths are those of values that come from the member: the object is to be applied to no other version of that.
	Paths []string
	// Added are those of them that the manifest does not have: they are not ours.
	Added []string
	// Dropped are the paths of fields that are not in the object, and were applied before.
	Dropped []string
}

// Yield gives an object the values of the member at the fields that are left to it. What others own apart from our fields is not sent; what we
// own, or is in a list or map that is owned as a whole, is sent as it is, or it would be removed.
func (r Reporter) Yield(ctx context.Context, o Object, wanted, live *unstructured.Unstructured, rules Rules) Yielded {
	y := Yielded{Object: wanted}
	if len(rules.Left)+len(rules.Shared) == 0 {
		return y
	}
	desired, there := pathsAt(wanted, rules.Left), pathsAt(live, rules.Left)
	shared := make([]string, 0, len(rules.Shared))
	for _, list := range rules.Shared {
		shared = append(shared, list+"/*")
	}
	inShared := pathsAt(wanted, shared)
	for path := range pathsAt(live, shared) {
		if !inShared[path] && !desired[path] {
			there[path] = true
		}
	}
	if len(desired)+len(there) == 0 {
		return y
	}
	c := r.compare(ctx, o, wanted, live)
	unowned := ssa.Unowned(o.Self, live, live)
	y.Object = wanted.DeepCopy()
	var drops []string
	for _, path := range slices.Sorted(maps.Keys(union(desired, there))) {
		above, lost := aboveOf(path, unowned)
		switch {
		case !there[path], desired[path] && lost && (above == path || !c.whole(above)):
			drops = append(drops, path)
		case !desired[path] && (ssa.WasApplied(live, path) || lost && (above == path || !c.whole(above))):
			// It left the template, or is another's: nothing is sent.
		default:
			if _, ok := graft(y.Object.Object, live.Object, "", path); ok {
				y.Paths = append(y.Paths, path)
				if !desired[path] {
					y.Added = append(y.Added, path)
				}
			}
		}
	}
	if len(drops) == 0 {
		return y
	}
	rest, removed := Without(y.Object, drops)
	y.Object = rest
	y.Dropped = slices.DeleteFunc(removed, func(path string) bool { return !ssa.WasApplied(live, path) })
	return y
}

// pathsAt are the paths of what an object has at pointers, without those by which the control plane recognizes its objects, and items of
// lists that have no path of their own.
func pathsAt(obj *unstructured.Unstructured, pointers []string) map[string]bool {
	paths := map[string]bool{}
	for _, pointer := range pointers {
		ssa.Expand(obj.Object, pointer, func(path string) {
			if !isOurs(path) && !identifies(path) {
				paths[path] = true
			}
		})
	}
	return paths
}

// aboveOf returns the one of some paths that is a path or above it.
func aboveOf(path string, paths map[string]bool) (string, bool) {
	for above := range paths {
		if above == path || isBelow(path, above) {
			return above, true
		}
	}
	return "", false
}

func union(a, b map[string]bool) map[string]bool {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// identifies returns whether a path is of what identifies an object, is not the control plane's, or has no path of its own.
func identifies(path string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch top {
	case "apiVersion", "kind", "status":
		return true
	case "metadata":
		return !strings.HasPrefix(path, "/metadata/labels/") && !strings.HasPrefix(path, "/metadata/annotations/")
	}
	return strings.Contains(path, "[]")
}
