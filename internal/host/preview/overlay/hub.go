package overlay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// firstVersion is above every resource version of a control plane, so that what is written here is newer than all that is cached.
const firstVersion = 1_000_000_000_000_000

// first is the resource version before the first write, also on top of a control plane that exists in memory only.
func first(based bool) int64 {
	if based {
		return 2 * firstVersion
	}
	return firstVersion
}

// Admit is what admission does to an object that is written; old is nil for a new one.
type Admit func(ctx context.Context, kind schema.GroupVersionKind, object, old client.Object) error

// Hub is the objects of our kinds, as the client of the loops.
type Hub struct {
	scheme *runtime.Scheme
	base   client.Reader
	admit  Admit
	clock  clock.PassiveClock
	newID  func() string

	mu      sync.RWMutex
	kinds   map[schema.GroupVersionKind]*collection
	version int64
	events  []controlloop.Change
	// bytes is how many the manifests of the Works have that were written.
	bytes int
}

var (
	_ client.Client       = &Hub{}
	_ client.FieldIndexer = &Hub{}
)

// collection is what was written of one kind.
type collection struct {
	entries  map[client.ObjectKey]*entry
	indexers map[string]client.IndexerFunc
	// indexed has the keys by index and value.
	indexed map[string]map[string]map[client.ObjectKey]bool
}

// entry is one object that was written. Now is nil for one that was deleted, before for one that is new since the last call of Mark.
type entry struct {
	before, now client.Object
	touched     bool
}

// NewHub returns a view of what base has. Base may be nil: then there is nothing but what is written here.
func NewHub(scheme *runtime.Scheme, base client.Reader, admit Admit, newID func() string, clk clock.PassiveClock) *Hub {
	return &Hub{scheme: scheme, base: base, admit: admit, newID: newID, clock: clk, kinds: map[schema.GroupVersionKind]*collection{}, version: first(base != nil)}
}

// IndexField implements client.FieldIndexer. It is called before any object is written.
func (h *Hub) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	kind, err := h.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.collection(kind).indexers[field] = extract
	return nil
}

// collection returns that of a kind. The lock is held.
func (h *Hub) collection(kind schema.GroupVersionKind) *collection {
	c := h.kinds[kind]
	if c == nil {
		c = &collection{entries: map[client.ObjectKey]*entry{}, indexers: map[string]client.IndexerFunc{}, indexed: map[string]map[string]map[client.ObjectKey]bool{}}
		h.kinds[kind] = c
	}
	return c
}

// TakeEvents returns the changes since the last call.
func (h *Hub) TakeEvents() []controlloop.Change {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := h.events
	h.events = nil
	return events
}

// Version changes with every write.
func (h *Hub) Version() int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.version
}

// Mark makes the present state the one that Changes compares with.
func (h *Hub) Mark() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.kinds {
		for _, e := range c.entries {
			e.before, e.touched = e.now, false
		}
	}
}

// Changes returns what differs from the state at the last call of Mark, or from base: each object once, by kind, namespace and name.
func (h *Hub) Changes() []controlloop.Change {
	h.mu.RLock()
	defer h.mu.RUnlock()
	type named struct {
		kind schema.GroupVersionKind
		key  client.ObjectKey
		controlloop.Change
	}
	var found []named
	for kind, c := range h.kinds {
		for key, e := range c.entries {
			if e.touched && (e.before != nil || e.now != nil) && !same(e.before, e.now) {
				found = append(found, named{kind, key, controlloop.Change{Before: e.before, After: e.now}})
			}
		}
	}
	slices.SortFunc(found, func(a, b named) int {
		return cmp.Or(strings.Compare(a.kind.String(), b.kind.String()), strings.Compare(a.key.String(), b.key.String()))
	})
	changes := make([]controlloop.Change, 0, len(found))
	for _, f := range found {
		changes = append(changes, f.Change)
	}
	return changes
}

// same compares two objects without what every write changes.
func same(a, b client.Object) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	a, b = clone(a), clone(b)
	b.SetResourceVersion(a.GetResourceVersion())
	b.SetGeneration(a.GetGeneration())
	b.SetManagedFields(a.GetManagedFields())
	return equality.Semantic.DeepEqual(a, b)
}

func clone(obj client.Object) client.Object { return obj.DeepCopyObject().(client.Object) }

// Get implements client.Reader.
func (h *Hub) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	kind, err := h.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	e := h.entry(kind, key)
	switch {
	case e == nil && h.base != nil:
		return h.base.Get(ctx, key, obj, options...)
	case e == nil || e.now == nil:
		return notFound(kind, key)
	}
	copyInto(obj, clone(e.now))
	return nil
}

func (h *Hub) entry(kind schema.GroupVersionKind, key client.ObjectKey) *entry {
	if c := h.kinds[kind]; c != nil {
		return c.entries[key]
	}
	return nil
}

func notFound(kind schema.GroupVersionKind, key client.ObjectKey) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.String())
}

// copyInto gives obj the content of another object of its type.
func copyInto(obj, content client.Object) {
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(content).Elem())
}

// List implements client.Reader.
func (h *Hub) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	kind, err := h.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	if h.base != nil {
		if err := h.base.List(ctx, list, options...); err != nil {
			return err
		}
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	c := h.kinds[kind]
	if c == nil || len(c.entries) == 0 {
		return nil
	}
	var items []runtime.Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if c.entries[client.ObjectKeyFromObject(item.(client.Object))] == nil {
			items = append(items, item)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the list: %w", err)
	}
	selected, err := c.selected((&client.ListOptions{}).ApplyOptions(options))
	if err != nil {
		return err
	}
	for _, key := range selected {
		items = append(items, clone(c.entries[key].now))
	}
	if err := meta.SetList(list, items); err != nil {
		return fmt.Errorf("making the list: %w", err)
	}
	return nil
}

// selected lists the keys of the objects that options select, in order.
func (c *collection) selected(options *client.ListOptions) ([]client.ObjectKey, error) {
	var keys []client.ObjectKey
	add := func(key client.ObjectKey) {
		e := c.entries[key]
		if e.now == nil || options.Namespace != "" && options.Namespace != key.Namespace ||
			options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(e.now.GetLabels())) {
			return
		}
		keys = append(keys, key)
	}
	if options.FieldSelector == nil || options.FieldSelector.Empty() {
		for key := range c.entries {
			add(key)
		}
	} else {
		requirements := options.FieldSelector.Requirements()
		if len(requirements) != 1 || c.indexers[requirements[0].Field] == nil {
			return nil, fmt.Errorf("there is no index for %s", options.FieldSelector)
		}
		for key := range c.indexed[requirements[0].Field][requirements[0].Value] {
			add(key)
		}
	}
	slices.SortFunc(keys, func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
	return keys, nil
}

// index adds or removes an object.
func (c *collection) index(key client.ObjectKey, obj client.Object, present bool) {
	if obj == nil {
		return
	}
	for field, extract := range c.indexers {
		for _, value := range extract(obj) {
			if c.indexed[field] == nil {
				c.indexed[field] = map[string]map[client.ObjectKey]bool{}
			}
			if c.indexed[field][value] == nil {
				c.indexed[field][value] = map[client.ObjectKey]bool{}
			}
			if present {
				c.indexed[field][value][key] = true
			} else {
				delete(c.indexed[field][value], key)
			}
		}
	}
}

// current returns an object as it is now, which must not be changed; nil if there is none.
func (h *Hub) current(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (client.Object, error) {
	if e := h.entry(kind, key); e != nil {
		return e.now, nil
	}
	if h.base == nil {
		return nil, nil
	}
	empty, err := h.scheme.New(kind)
	if err != nil {
		return nil, fmt.Errorf("making a %s: %w", kind.Kind, err)
	}
	obj := empty.(client.Object)
	if err := h.base.Get(ctx, key, obj); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return obj, nil
}

// Bytes is how many the manifests of the Works have that were written: what a view takes of memory is mostly these.
func (h *Hub) Bytes() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.bytes
}

func bytesOf(obj client.Object) (n int) {
	if work, ok := obj.(*workv1alpha1.Work); ok && work != nil {
		for i := range work.Spec.Workload.Manifests {
			n += len(work.Spec.Workload.Manifests[i].Raw)
		}
	}
	return n
}

// store replaces an object, and returns whether that is a change. The lock is held.
func (h *Hub) store(kind schema.GroupVersionKind, before, after client.Object) bool {
	if before != nil && after != nil && same(before, after) && before.GetGeneration() == after.GetGeneration() {
		return false
	}
	var key client.ObjectKey
	h.version++
	if after != nil {
		after.SetResourceVersion(strconv.FormatInt(h.version, 10))
		after = clone(after)
		key = client.ObjectKeyFromObject(after)
	} else {
		key = client.ObjectKeyFromObject(before)
	}
	c := h.collection(kind)
	e := c.entries[key]
	if e == nil {
		e = &entry{}
		c.entries[key] = e
	}
	if !e.touched {
		e.before, e.touched = before, true
	}
	c.index(key, e.now, false)
	h.bytes += bytesOf(after) - bytesOf(e.now)
	e.now = after
	c.index(key, after, true)
	change := controlloop.Change{}
	if before != nil {
		change.Before = before
	}
	if after != nil {
		change.After = after
	}
	h.events = append(h.events, change)
	return true
}

// Create implements client.Writer.
func (h *Hub) Create(ctx context.Context, obj client.Object, _ ...client.CreateOption) error {
	kind, err := h.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := client.ObjectKeyFromObject(obj)
	present, err := h.current(ctx, kind, key)
	if err != nil {
		return err
	}
	if present != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.String())
	}
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(h.newID()))
	}
	if created := obj.GetCreationTimestamp(); created.IsZero() {
		obj.SetCreationTimestamp(metav1.NewTime(h.clock.Now()).Rfc3339Copy())
	}
	obj.SetGeneration(max(obj.GetGeneration(), 1))
	if err := h.admit(ctx, kind, obj, nil); err != nil {
		return err
	}
	h.store(kind, nil, obj)
	return nil
}

// Set makes an object what it is after a request of a user, as it is: with the identity, the defaults and the ids that it has.
func (h *Hub) Set(ctx context.Context, obj client.Object) error {
	kind, err := h.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before, err := h.current(ctx, kind, client.ObjectKeyFromObject(obj))
	if err != nil {
		return err
	}
	after := clone(obj)
	after.SetManagedFields(nil)
	if before != nil && after.GetGeneration() <= before.GetGeneration() && !reflect.DeepEqual(specOf(before), specOf(after)) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	h.store(kind, before, after)
	return nil
}

// specOf is the spec of an object, nil if its kind has none.
func specOf(obj client.Object) any {
	field := reflect.ValueOf(obj).Elem().FieldByName("Spec")
	if !field.IsValid() {
		return nil
	}
	return field.Interface()
}

// Update implements client.Writer.
func (h *Hub) Update(ctx context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return h.change(ctx, obj, "", func(client.Object) (client.Object, error) { return clone(obj), nil })
}

// Patch implements client.Writer.
func (h *Hub) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return h.patch(ctx, obj, patch, "")
}

func (h *Hub) patch(ctx context.Context, obj client.Object, patch client.Patch, subresource string) error {
	raw, err := patch.Data(obj)
	if err != nil {
		return fmt.Errorf("making the patch: %w", err)
	}
	return h.change(ctx, obj, subresource, func(present client.Object) (client.Object, error) {
		document, err := json.Marshal(present)
		if err != nil {
			return nil, fmt.Errorf("encoding the object: %w", err)
		}
		switch patch.Type() {
		case types.MergePatchType:
			document, err = jsonpatch.MergePatch(document, raw)
		case types.JSONPatchType:
			var operations jsonpatch.Patch
			if operations, err = jsonpatch.DecodePatch(raw); err == nil {
				document, err = operations.Apply(document)
			}
		default:
			err = fmt.Errorf("patches of type %s are not made here", patch.Type())
		}
		if err != nil {
			return nil, fmt.Errorf("patching: %w", err)
		}
		next := reflect.New(reflect.TypeOf(present).Elem()).Interface().(client.Object)
		if err := json.Unmarshal(document, next); err != nil {
			return nil, fmt.Errorf("decoding the patched object: %w", err)
		}
		return next, nil
	})
}

// change replaces an object, or the part of it that a subresource has, as the API server does.
func (h *Hub) change(ctx context.Context, obj client.Object, subresource string, next func(present client.Object) (client.Object, error)) error {
	kind, err := h.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := client.ObjectKeyFromObject(obj)
	before, err := h.current(ctx, kind, key)
	if err != nil {
		return err
	}
	if before == nil {
		return notFound(kind, key)
	}
	after, err := next(before)
	if err != nil {
		return err
	}
	if v := after.GetResourceVersion(); v != "" && v != before.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.String(), errors.New("the object has been modified"))
	}
	switch subresource {
	case "status":
		whole := clone(before)
		setPart(whole, after, "Status")
		after = whole
	case "":
		setPart(after, before, "Status")
		if err := h.admit(ctx, kind, after, before); err != nil {
			return err
		}
	}
	after.SetGeneration(before.GetGeneration())
	if !equality.Semantic.DeepEqual(specOf(before), specOf(after)) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
		h.store(kind, before, nil)
	} else if !h.store(kind, before, after) {
		after.SetResourceVersion(before.GetResourceVersion())
	}
	copyInto(obj, clone(after))
	return nil
}

// setPart copies a field, if the kind has one of the name.
func setPart(to, from client.Object, name string) {
	if field := reflect.ValueOf(to).Elem().FieldByName(name); field.IsValid() {
		field.Set(reflect.ValueOf(from).Elem().FieldByName(name))
	}
}

// Delete implements client.Writer.
func (h *Hub) Delete(ctx context.Context, obj client.Object, options ...client.DeleteOption) error {
	kind, err := h.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := client.ObjectKeyFromObject(obj)
	before, err := h.current(ctx, kind, key)
	if err != nil {
		return err
	}
	o := (&client.DeleteOptions{}).ApplyOptions(options)
	switch {
	case before == nil:
		return notFound(kind, key)
	case o.Preconditions != nil && o.Preconditions.UID != nil && *o.Preconditions.UID != before.GetUID():
		return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.String(), errors.New("the uid differs"))
	case len(before.GetFinalizers()) == 0:
		h.store(kind, before, nil)
	case before.GetDeletionTimestamp() == nil:
		after := clone(before)
		now := metav1.NewTime(h.clock.Now()).Rfc3339Copy()
		after.SetDeletionTimestamp(&now)
		if before.GetGeneration() > 0 { // as the API server does
			after.SetGeneration(before.GetGeneration() + 1)
		}
		h.store(kind, before, after)
	}
	return nil
}

// Remove deletes an object whatever its finalizers: whoever owns these does not run here.
func (h *Hub) Remove(ctx context.Context, obj client.Object) error {
	kind, err := h.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before, err := h.current(ctx, kind, client.ObjectKeyFromObject(obj))
	if err == nil && before != nil {
		h.store(kind, before, nil)
	}
	return err
}
