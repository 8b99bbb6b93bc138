package drifted

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// comparison is one of an object in a member with its manifest. A map or list that is owned as a whole is compared both ways: what others
// add to it is a difference. In any other one, what is not wanted belongs to others.
type comparison struct {
	wanted, live *unstructured.Unstructured
	made         map[string]uint64
	yielded      []string
	// ours says of the maps and lists that we own whether that is as a whole.
	ours map[string]bool
	// standing are the fields that are known to differ: each whole map or list among them was found to be one.
	standing []fleetv1alpha1.DriftedField
	// owners reads who owns which field, once: the cache has no owners but ourselves.
	owners func() []metav1.ManagedFieldsEntry
	others map[string]bool
	// lost are the paths that others changed: they own a map there that was empty.
	lost []string
}

func (r Reporter) compare(ctx context.Context, o Object, wanted, live *unstructured.Unstructured) *comparison {
	c := &comparison{wanted: wanted, live: live, made: o.Made, yielded: o.Yielded, ours: map[string]bool{}}
	ssa.AddWholes(c.ours, wanted, o.Self.OurFields(live))
	c.standing, _ = r.Episodes.Standing(o.Key)
	c.owners = func() []metav1.ManagedFieldsEntry {
		entries := o.Owners
		if entries == nil {
			head, err := o.Member.Get(ctx, live.GetName(), metav1.GetOptions{})
			if err != nil {
				return nil // then the values that are wanted are compared, and no more
			}
			entries = head.ManagedFields
		}
		return slices.DeleteFunc(slices.Clone(entries), func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == o.Self.Manager() })
	}
	return c
}

// differsAsWhole returns whether a map or list is owned as a whole and is another one than wanted.
func (c *comparison) differsAsWhole(wanted, live any, path string) bool {
	switch w := wanted.(type) {
	case map[string]any:
		if _, isMap := live.(map[string]any); !isMap || len(w) == 0 && !slices.Contains(c.lost, path) {
			return false // an empty one is a place for defaults and for the fields of others
		}
	case []any:
		if _, isList := live.([]any); !isList || len(w) == 0 && !slices.Contains(c.lost, path) {
			return false
		}
	default:
		return false
	}
	if last, known := c.made[path]; ssa.SameValue(wanted, live) || known && last == ssa.ValueHash(live) || !c.whole(path) {
		return false
	}
	// What a controller in the member writes below may come with defaults.
	yields := slices.ContainsFunc(c.yielded, func(yielded string) bool { return isBelow(yielded, path) })
	return !yields || !ssa.Defaulted(wanted, live)
}

// whole returns whether a map or list is owned as a whole.
func (c *comparison) whole(path string) bool {
	if whole, known := c.ours[path]; known {
		return whole
	}
	if whole, known := c.kept(path); known {
		return whole
	}
	if c.others == nil {
		c.others = map[string]bool{}
		for _, fields := range ssa.FieldsOf(c.owners()) {
			ssa.AddWholes(c.others, c.wanted, fields)
		}
	}
	return c.others[path]
}

// kept answers from the fields that are known to differ, so that an object that stays as it is costs no request.
func (c *comparison) kept(path string) (whole, known bool) {
	for _, field := range c.standing {
		switch {
		case field.Path == path:
			found, exists := ValuesAt(c.live, []string{path})[path]
			return true, field.Found == drift.Text(found, exists, isSecret(c.wanted))
		case isBelow(field.Path, path):
			return false, true
		}
	}
	return false, false
}
