package overlay

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

// Store is the templates of a control plane; *hubstore.Store is one.
type Store interface {
	hubstore.Reader
	Kinds() []hubstore.Kind
	Canonical(schema.GroupVersionKind) (schema.GroupVersionKind, bool)
	OtherVersions(schema.GroupVersionKind) []string
	Mapping(schema.GroupVersionKind) (gvr schema.GroupVersionResource, namespaced, ok bool)
	List(schema.GroupVersionKind, string, labels.Selector) []*metav1.PartialObjectMetadata
}

// Templates is the objects of users. It is not safe for concurrent writes.
type Templates struct {
	base Store
	// exclude leaves out objects besides those of hubstore.Excluded.
	exclude func(hubstore.Ref) bool

	// kinds are those that base does not have, by group and kind.
	kinds   map[schema.GroupKind]hubstore.Kind
	objects map[hubstore.Ref]*held
	version int64
	notify  []func(hubstore.Ref)
}

// held is one object that was written; now is nil for one that was deleted.
type held struct {
	before, now *unstructured.Unstructured
	touched     bool
}

// NewTemplates returns a view of what base has, which may be nil.
func NewTemplates(base Store, exclude func(hubstore.Ref) bool) *Templates {
	return &Templates{base: base, exclude: exclude, kinds: map[schema.GroupKind]hubstore.Kind{}, objects: map[hubstore.Ref]*held{}, version: first(base != nil)}
}

// AddKind adds a kind, unless there is one of its group and name.
func (t *Templates) AddKind(kind hubstore.Kind) {
	if _, ok := t.Canonical(kind.GroupVersionKind); !ok {
		t.kinds[kind.GroupVersionKind.GroupKind()] = kind
	}
}

// Kinds implements Store.
func (t *Templates) Kinds() []hubstore.Kind {
	kinds := slices.Collect(maps.Values(t.kinds))
	if t.base != nil {
		kinds = append(kinds, t.base.Kinds()...)
	}
	return kinds
}

// Canonical implements Store.
func (t *Templates) Canonical(gvk schema.GroupVersionKind) (schema.GroupVersionKind, bool) {
	if t.base != nil {
		if canonical, ok := t.base.Canonical(gvk); ok {
			return canonical, true
		}
	}
	kind, ok := t.kinds[gvk.GroupKind()]
	return kind.GroupVersionKind, ok
}

// OtherVersions implements Store.
func (t *Templates) OtherVersions(gvk schema.GroupVersionKind) []string {
	if t.base == nil {
		return nil
	}
	return t.base.OtherVersions(gvk)
}

// Mapping implements Store.
func (t *Templates) Mapping(gvk schema.GroupVersionKind) (gvr schema.GroupVersionResource, namespaced, ok bool) {
	if t.base != nil {
		if gvr, namespaced, ok = t.base.Mapping(gvk); ok {
			return gvr, namespaced, ok
		}
	}
	kind, ok := t.kinds[gvk.GroupKind()]
	return kind.Resource, kind.Namespaced, ok
}

// Stays returns why an object is no template; "" if it is one.
func (t *Templates) Stays(ref hubstore.Ref, object metav1.Object) string {
	return hubstore.StaysWith(t.exclude, ref, object)
}

// Meta implements Store.
func (t *Templates) Meta(ref hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	ref = ref.Canonical(t)
	switch h := t.objects[ref]; {
	case h != nil && h.now != nil:
		if t.Stays(ref, h.now) != "" {
			return nil, false
		}
		return metaOf(h.now), true
	case h == nil && t.base != nil:
		return t.base.Meta(ref)
	}
	return nil, false
}

func metaOf(obj *unstructured.Unstructured) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(), Generation: obj.GetGeneration(),
		CreationTimestamp: obj.GetCreationTimestamp(), DeletionTimestamp: obj.GetDeletionTimestamp(),
		Labels: obj.GetLabels(), Annotations: obj.GetAnnotations(), OwnerReferences: obj.GetOwnerReferences(), Finalizers: obj.GetFinalizers(),
	}}
}

// Deleted is that of hubstore.Store, which is never certain here.
func (*Templates) Deleted(types.UID) bool { return false }

// List implements Store.
func (t *Templates) List(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) []*metav1.PartialObjectMetadata {
	canonical, ok := t.Canonical(gvk)
	if !ok {
		return nil
	}
	refOf := func(m *metav1.PartialObjectMetadata) hubstore.Ref {
		return hubstore.Ref{GroupVersionKind: canonical, Namespace: m.Namespace, Name: m.Name}
	}
	var found []*metav1.PartialObjectMetadata
	if t.base != nil {
		for _, m := range t.base.List(canonical, namespace, selector) {
			if t.objects[refOf(m)] == nil {
				found = append(found, m)
			}
		}
	}
	for ref, h := range t.objects {
		if h.now != nil && ref.GroupVersionKind == canonical && (namespace == "" || namespace == ref.Namespace) &&
			selector.Matches(labels.Set(h.now.GetLabels())) && t.Stays(ref, h.now) == "" {
			found = append(found, metaOf(h.now))
		}
	}
	slices.SortFunc(found, func(a, b *metav1.PartialObjectMetadata) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return found
}

// Get implements Store.
func (t *Templates) Get(ctx context.Context, ref hubstore.Ref) (*unstructured.Unstructured, error) {
	ref = ref.Canonical(t)
	switch h := t.objects[ref]; {
	case h != nil && h.now != nil:
		return h.now.DeepCopy(), nil
	case h == nil && t.base != nil:
		return t.base.Get(ctx, ref)
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: ref.GroupVersionKind.Group, Resource: ref.GroupVersionKind.Kind}, ref.Name)
}

// Read is Get: no version in a preview is newer than the one it has.
func (t *Templates) Read(ctx context.Context, ref hubstore.Ref, _ string) (*unstructured.Unstructured, error) {
	return t.Get(ctx, ref)
}

// Subscribe has notify called for every template: at once for those that exist, then for each that changes.
func (t *Templates) Subscribe(notify func(hubstore.Ref)) {
	t.notify = append(t.notify, notify)
	for _, kind := range t.Kinds() {
		for _, m := range t.List(kind.GroupVersionKind, "", labels.Everything()) {
			notify(hubstore.Ref{GroupVersionKind: kind.GroupVersionKind, Namespace: m.Namespace, Name: m.Name})
		}
	}
}

// Touch notifies of every template of some kinds, as after a change.
func (t *Templates) Touch(kinds func(schema.GroupVersionKind) bool) {
	for _, kind := range t.Kinds() {
		if !kinds(kind.GroupVersionKind) {
			continue
		}
		for _, m := range t.List(kind.GroupVersionKind, "", labels.Everything()) {
			for _, notify := range t.notify {
				notify(hubstore.Ref{GroupVersionKind: kind.GroupVersionKind, Namespace: m.Namespace, Name: m.Name})
			}
		}
	}
}

// In lists the templates of a namespace, in order.
func (t *Templates) In(namespace string) []hubstore.Ref {
	var found []hubstore.Ref
	for _, kind := range t.Kinds() {
		if !kind.Namespaced {
			continue
		}
		for _, m := range t.List(kind.GroupVersionKind, namespace, labels.Everything()) {
			found = append(found, hubstore.Ref{GroupVersionKind: kind.GroupVersionKind, Namespace: m.Namespace, Name: m.Name})
		}
	}
	slices.SortFunc(found, compare)
	return found
}

// OnChange has notify called for every template that changes.
func (t *Templates) OnChange(notify func(hubstore.Ref)) { t.notify = append(t.notify, notify) }

// WaitForSync returns at once: there is nothing to wait for.
func (*Templates) WaitForSync(context.Context) error { return nil }

// Set makes an object what it is after a request of a user; nil deletes it.
func (t *Templates) Set(ctx context.Context, ref hubstore.Ref, obj *unstructured.Unstructured) error {
	ref = ref.Canonical(t)
	before, err := t.Get(ctx, ref)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if obj != nil {
		obj = obj.DeepCopy()
		if before != nil && obj.GetGeneration() != 0 && obj.GetGeneration() <= before.GetGeneration() && !sameContent(before, obj) {
			obj.SetGeneration(before.GetGeneration() + 1)
		}
	}
	t.store(ref, before, obj)
	return nil
}

func (t *Templates) store(ref hubstore.Ref, before, after *unstructured.Unstructured) {
	h := t.objects[ref]
	if h == nil {
		h = &held{}
		t.objects[ref] = h
	}
	if !h.touched {
		h.before, h.touched = before, true
	}
	t.version++
	if after != nil {
		after.SetResourceVersion(strconv.FormatInt(t.version, 10))
	}
	h.now = after
	for _, notify := range t.notify {
		notify(ref)
	}
}

// PatchMetadata makes a merge patch of an object. A uid in it has to be that of the object.
func (t *Templates) PatchMetadata(ctx context.Context, ref hubstore.Ref, patch []byte) (*unstructured.Unstructured, error) {
	ref = ref.Canonical(t)
	before, err := t.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	document, err := json.Marshal(before.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", ref, err)
	}
	if document, err = jsonpatch.MergePatch(document, patch); err != nil {
		return nil, fmt.Errorf("patching %s: %w", ref, err)
	}
	after := &unstructured.Unstructured{}
	if err := after.UnmarshalJSON(document); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", ref, err)
	}
	if after.GetUID() != before.GetUID() {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: ref.GroupVersionKind.Group, Resource: ref.GroupVersionKind.Kind}, ref.Name, fmt.Errorf("the uid is %s", before.GetUID()))
	}
	t.store(ref, before, after)
	return after.DeepCopy(), nil
}

// Version changes with every write.
func (t *Templates) Version() int64 { return t.version }

// Written returns what an object was at the last call of Mark, and what it is now; nil for none, and both nil for one that was not written.
func (t *Templates) Written(ref hubstore.Ref) (before, now *unstructured.Unstructured) {
	if h := t.objects[ref.Canonical(t)]; h != nil {
		return h.before, h.now
	}
	return nil, nil
}

// Mark makes the present state the one that Changes compares with.
func (t *Templates) Mark() {
	for _, h := range t.objects {
		h.before, h.touched = h.now, false
	}
}

// Template is what became of one object. Before is nil for one that is new, After for one that is deleted.
type Template struct {
	Ref           hubstore.Ref
	Before, After *unstructured.Unstructured
}

// Changes returns the objects that were written since the last call of Mark, also those that only a claim changed, in order.
func (t *Templates) Changes() []Template {
	var found []Template
	for ref, h := range t.objects {
		if h.touched {
			found = append(found, Template{ref, h.before, h.now})
		}
	}
	slices.SortFunc(found, func(a, b Template) int { return compare(a.Ref, b.Ref) })
	return found
}
