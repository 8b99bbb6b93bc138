package stored

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bounds are how much is kept of what was deleted.
type bounds struct{ objects, bytes int64 }

var (
	ofNamespace = bounds{1000, 8 << 20}
	ofAll       = bounds{10_000, 64 << 20}
)

// bound deletes the oldest tombstones of namespaces that have too many and, if there are too many in all, of those that have most of what is
// too many: objects or bytes.
func (k *Storage) bound(ctx context.Context) error {
	all, err := k.tombstones(ctx, nil)
	if err != nil {
		return err
	}
	for _, name := range surplus(all) {
		if err := k.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// surplus are the names of tombstones that exceed the bounds.
func surplus(all []metav1.PartialObjectMetadata) []string {
	sizeOf := func(o metav1.PartialObjectMetadata) bounds {
		objects, _ := strconv.ParseInt(o.Annotations[countAnnotation], 10, 64) // 0 for what is not a number
		size, _ := strconv.ParseInt(o.Annotations[bytesAnnotation], 10, 64)
		return bounds{objects, size}
	}
	used, total := map[string]bounds{}, bounds{}
	kept := map[string][]metav1.PartialObjectMetadata{}
	for _, o := range all {
		namespace, size := o.Labels[tombstoneLabel], sizeOf(o)
		used[namespace], total = used[namespace].plus(size), total.plus(size)
		kept[namespace] = append(kept[namespace], o)
	}
	var names []string
	drop := func(namespace string) {
		oldest := kept[namespace][0]
		kept[namespace] = kept[namespace][1:]
		used[namespace], total = used[namespace].minus(sizeOf(oldest)), total.minus(sizeOf(oldest))
		names = append(names, oldest.Name)
	}
	for _, namespace := range slices.Sorted(maps.Keys(kept)) {
		for used[namespace].exceeds(ofNamespace) && len(kept[namespace]) > 0 {
			drop(namespace)
		}
	}
	for total.exceeds(ofAll) {
		maps.DeleteFunc(kept, func(_ string, left []metav1.PartialObjectMetadata) bool { return len(left) == 0 })
		exceeded := bounds.ofBytes
		if total.objects > ofAll.objects {
			exceeded = bounds.ofObjects
		}
		namespaces := slices.Sorted(maps.Keys(kept))
		if len(namespaces) == 0 {
			break
		}
		drop(slices.MaxFunc(namespaces, func(a, b string) int { return cmp.Compare(exceeded(used[a]), exceeded(used[b])) }))
	}
	return names
}

func (b bounds) ofObjects() int64 { return b.objects }
func (b bounds) ofBytes() int64   { return b.bytes }

func (b bounds) plus(c bounds) bounds      { return bounds{b.objects + c.objects, b.bytes + c.bytes} }
func (b bounds) minus(c bounds) bounds     { return bounds{b.objects - c.objects, b.bytes - c.bytes} }
func (b bounds) exceeds(limit bounds) bool { return b.objects > limit.objects || b.bytes > limit.bytes }
