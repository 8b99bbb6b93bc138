package hubstore

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/lru"
)

const (
	// keptContents is how many whole templates are kept: those on their way through the stages.
	keptContents = 256
	// keptSize bounds the size of each, in bytes of text. One that is larger is read each time.
	keptSize = 32 << 10
)

// contents has the templates that were last read or written as a whole. They are kept since three stages need the same version of a
// template within a second of each change, and each read is a request of more than a millisecond of CPU time. An object in it is never
// changed.
type contents struct {
	latest *lru.Cache
	// short returns whether memory is short: nothing is kept then.
	short func() bool
}

func newContents(short func() bool) contents {
	if short == nil {
		short = func() bool { return false }
	}
	return contents{lru.New(keptContents), short}
}

// keep keeps a copy of an object unless a newer one is there.
func (c contents) keep(ref Ref, obj *unstructured.Unstructured) {
	if c.short() {
		c.latest.Clear()
		return
	}
	if before := c.of(ref); before != nil && before.GetUID() == obj.GetUID() && !atLeast(obj.GetResourceVersion(), before.GetResourceVersion()) {
		return
	}
	if textSize(obj.Object, keptSize) > keptSize {
		c.drop(ref)
		return
	}
	c.latest.Add(ref, obj.DeepCopy())
}

func (c contents) drop(ref Ref) { c.latest.Remove(ref) }

func (c contents) of(ref Ref) *unstructured.Unstructured {
	kept, ok := c.latest.Get(ref)
	if !ok {
		return nil
	}
	return kept.(*unstructured.Unstructured)
}

// Read returns a template as the watch of its kind has seen it last, and not as it was before a resource version, which may be empty. It
// makes no request if that is what was read or written through this store last. The errors are those of Get.
func (s *Store) Read(ctx context.Context, ref Ref, notBefore string) (*unstructured.Unstructured, error) {
	if obj := s.contents.of(ref); obj != nil && (notBefore == "" || atLeast(obj.GetResourceVersion(), notBefore)) {
		if meta, ok := s.Meta(ref); ok && meta.UID == obj.GetUID() && meta.ResourceVersion == obj.GetResourceVersion() {
			return obj.DeepCopy(), nil
		}
	}
	obj, err := s.Get(ctx, ref)
	if err != nil {
		s.contents.drop(ref)
		return nil, err
	}
	s.contents.keep(ref, obj)
	return obj, nil
}

// atLeast returns whether a resource version is as new as another one; false for what is none.
func atLeast(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order >= 0
}

// textSize is how many bytes the text in a decoded object has, keys included. It stops counting above enough.
func textSize(value any, enough int) int {
	size := 0
	switch v := value.(type) {
	case string:
		return len(v)
	case map[string]any:
		for key, inside := range v {
			if size += len(key) + textSize(inside, enough-size); size > enough {
				break
			}
		}
	case []any:
		for _, inside := range v {
			if size += textSize(inside, enough-size); size > enough {
				break
			}
		}
	default:
		return 1 // at least
	}
	return size
}
