package ssa

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

// predecessors are managers that wrote our objects with plain updates before us. What they own is ours.
var Predecessors = map[string]bool{"karmada-controller-manager": true, "karmada-agent": true}

// formerManagers are the names under which an object was applied before, by ourselves or by whom it is taken over from.
func FormerManagers(self ownership.ControlPlane, live *unstructured.Unstructured) []string {
	var names []string
	for _, name := range []string{ownership.FieldManager, ownership.ManagerOf(self.Other(live))} {
		if name != self.Manager() {
			names = append(names, name)
		}
	}
	return names
}

// renamed gives what some managers applied to another one.
func Renamed(entries []metav1.ManagedFieldsEntry, former []string, to string) []metav1.ManagedFieldsEntry {
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		applied := entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
		if applied && slices.Contains(former, entry.Manager) {
			entry.Manager = to
		}
		twin := slices.IndexFunc(kept, func(other metav1.ManagedFieldsEntry) bool {
			return applied && entry.Manager == to && other.Manager == to && other.Operation == entry.Operation && other.Subresource == "" && other.APIVersion == entry.APIVersion
		})
		if twin < 0 {
			kept = append(kept, entry)
		} else if both, err := united(kept[twin].FieldsV1, entry.FieldsV1); err == nil {
			kept[twin].FieldsV1 = both
		}
	}
	return kept
}

// Change is which manager owns a field, and when it wrote its fields last.
type Change struct {
	Manager string
	Time    *metav1.Time
}

// ChangedBy returns, for paths of desired, which other manager owns the field in live, the latest if there are several; paths that no
// other manager owns are missing.
func ChangedBy(self ownership.ControlPlane, desired *unstructured.Unstructured, entries []metav1.ManagedFieldsEntry, paths []string) map[string]Change {
	managers := map[string]Change{}
	for _, entry := range slices.SortedStableFunc(slices.Values(entries), func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Compare(unixOf(a.Time), unixOf(b.Time))
	}) {
		var fields map[string]any
		if entry.Manager == self.Manager() || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		missing := []string{}
		unowned(content(desired), fields, "", func(path string) { missing = append(missing, path) })
		for _, path := range paths {
			if !slices.ContainsFunc(missing, func(m string) bool {
				return path == m || strings.HasPrefix(path, m+"/") || strings.HasPrefix(path, m+"[")
			}) {
				managers[path] = Change{entry.Manager, entry.Time}
			}
		}
	}
	return managers
}

// FieldsOf are the fields of owners, as fieldsV1; what cannot be read is left out.
func FieldsOf(entries []metav1.ManagedFieldsEntry) []map[string]any {
	var all []map[string]any
	for _, entry := range entries {
		var fields map[string]any
		if entry.FieldsV1 != nil && json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil {
			all = append(all, fields)
		}
	}
	return all
}

// AddWholes adds the paths of the maps and lists of an object that are in the fields of an owner, with whether it owns them as a whole. Whoever
// owns a part decides: an empty map or list is owned like a whole one.
func AddWholes(wholes map[string]bool, obj *unstructured.Unstructured, fields map[string]any) {
	if len(fields) > 0 {
		addWholes(wholes, content(obj), fields, "")
	}
}

func addWholes(wholes map[string]bool, value any, fields map[string]any, path string) {
	mark := func() (inner bool) {
		_, known := wholes[path]
		inner = hasChildren(fields)
		if inner || !known {
			wholes[path] = !inner
		}
		return inner
	}
	switch v := value.(type) {
	case map[string]any:
		if !mark() {
			return
		}
		for key, child := range v {
			if owned, ok := fields["f:"+key].(map[string]any); ok {
				addWholes(wholes, child, owned, path+"/"+key)
			}
		}
	case []any:
		if !mark() {
			return
		}
		items := itemsOf(fields)
		for _, item := range v {
			if owned, ok := items.find(item); ok {
				addWholes(wholes, item, owned, path+ItemPath(item))
			}
		}
	}
}

func unixOf(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}

// united are the fields of two entries.
func united(a, b *metav1.FieldsV1) (*metav1.FieldsV1, error) {
	var sets [2]fieldpath.Set
	for i, fields := range []*metav1.FieldsV1{a, b} {
		if fields == nil {
			continue
		}
		if err := sets[i].FromJSON(fields.GetRawReader()); err != nil {
			return nil, fmt.Errorf("reading managed fields: %w", err)
		}
	}
	raw, err := sets[0].Union(&sets[1]).ToJSON()
	if err != nil {
		return nil, fmt.Errorf("writing managed fields: %w", err)
	}
	return metav1.NewFieldsV1(string(raw)), nil
}

func SameEntries(a, b []metav1.ManagedFieldsEntry) bool {
	before, beforeErr := json.Marshal(a)
	after, afterErr := json.Marshal(b)
	return beforeErr == nil && afterErr == nil && bytes.Equal(before, after)
}

// takenFrom lists the control planes from which an object has been taken over, with the one that has it if it is another.
func TakenFrom(self ownership.ControlPlane, live *unstructured.Unstructured) string {
	losers := strings.FieldsFunc(live.GetAnnotations()[workv1alpha1.TakenFromAnnotation], func(r rune) bool { return r == ',' })
	if other := self.Other(live); other != "" && !slices.Contains(losers, other) {
		losers = append(losers, other)
	}
	return strings.Join(losers, ",")
}

func IsAdopted(obj *unstructured.Unstructured) bool {
	return obj.GetAnnotations()[workv1alpha1.AdoptedAnnotation] == "true"
}
