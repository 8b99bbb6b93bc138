package objectcache

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

// Change means that a managed object in a member is not what it was, or, with Synced set, that all managed objects of a
// resource are known now.
type Change struct {
	// Cluster is the name of the member.
	Cluster string
	// Resource is what was watched.
	Resource schema.GroupVersionResource
	// Object is the namespace and name of the object.
	Object types.NamespacedName
	// Work is the Work the object belongs to by its annotations; empty if it names none.
	Work types.NamespacedName
	// Previously is the Work it belonged to before, if that was another one.
	Previously types.NamespacedName
	// Gone is true for an object that was deleted, or lost the managed label.
	Gone bool
	// Disowned is true if the set of fields we own in it changed, or a value of one of them did though nothing else was
	// applied: others used the name of our field manager.
	Disowned bool
	// Rewound is true if the object may be an earlier one than what was seen, as in a member that was restored from a
	// backup: its version is, or it is another one after the member was away.
	Rewound bool
	// New is true if the object was not there before.
	New bool
	// Listed is true if it is new and came with a list, of when the watch began or of when it had to begin again.
	Listed bool
	// Synced is true for the change that completes the watch; Object and Work are empty then.
	Synced bool
}

// objects keeps the managed objects of one resource as compressed JSON, which takes a small part of the memory of decoded ones. It is
// the store of a reflector.
type objects struct {
	cluster  string
	resource schema.GroupVersionResource
	control  ownership.ControlPlane
	changed  func(Change)
	lost     func() uint64 // how many requests to the member got no answer so far
	seed     maphash.Seed
	codec    *Codec

	mu     sync.RWMutex
	items  map[types.NamespacedName]kept
	byWork map[types.NamespacedName][]types.NamespacedName
	seen   string // the newest version the watch has shown
	synced bool
	// refused is why the last list was refused for lack of a right; nil if it was not.
	refused error
	onSync  []func()
}

type kept struct {
	raw     []byte // compressed
	version string
	work    types.NamespacedName
	owned   uint64
	values  uint64 // of the fields we own
	record  uint64 // what was applied last
	lost    uint64 // when it was seen
}

var _ cache.ReflectorStore = (*objects)(nil)

func newObjects(config Config, resource schema.GroupVersionResource) *objects {
	return &objects{
		cluster: config.Cluster, resource: resource, control: config.ControlPlane, changed: config.Changed, lost: config.Lost, seed: maphash.MakeSeed(),
		codec: config.Codec,
		items: map[types.NamespacedName]kept{}, byWork: map[types.NamespacedName][]types.NamespacedName{},
	}
}

// Transformer makes the reflector drop what is not kept as soon as it reads it.
func (o *objects) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			o.control.Trim(u)
		}
		return obj, nil
	}
}

// Add implements cache.ReflectorStore.
func (o *objects) Add(obj any) error { return o.put(obj, false) }

// Update implements cache.ReflectorStore.
func (o *objects) Update(obj any) error { return o.put(obj, false) }

// put keeps an object that the watch showed, or that came with the answer to a write of ours.
func (o *objects) put(obj any, answer bool) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("keeping a %T: not an object", obj)
	}
	key, version := keyOf(u), u.GetResourceVersion()
	if o.passed(key, version, answer) {
		return nil
	}
	item, err := o.keep(u)
	if err != nil {
		return err
	}
	o.mu.Lock()
	old, existed := o.items[key]
	if existed && !newer(version, old.version) {
		o.mu.Unlock()
		return nil
	}
	o.set(key, item)
	o.mu.Unlock()
	change := o.difference(key, old, item, existed)
	change.Disowned = change.Disowned && !answer // the fields that we own are other ones since we wrote them
	o.changed(change)
	return nil
}

// passed records what the watch shows, and returns whether a version is known already: the event of a write whose answer
// was here before, or the answer to a write that the watch has overtaken, of an object deleted since.
func (o *objects) passed(key types.NamespacedName, version string, answer bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	old, existed := o.items[key]
	known := existed && !newer(version, old.version)
	overtaken := answer && !existed && !newer(version, o.seen)
	if !answer {
		o.seen = version
	}
	return known || overtaken
}

func keyOf(u *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
}

// newer returns whether a version comes after another; what cannot be compared does.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil || order > 0
}

// set keeps an item. The lock is held.
func (o *objects) set(key types.NamespacedName, item kept) {
	o.unset(key)
	o.items[key] = item
	o.byWork[item.work] = append(o.byWork[item.work], key)
}

// unset drops an item. The lock is held.
func (o *objects) unset(key types.NamespacedName) {
	item, existed := o.items[key]
	if !existed {
		return
	}
	delete(o.items, key)
	rest := slices.DeleteFunc(o.byWork[item.work], func(k types.NamespacedName) bool { return k == key })
	if len(rest) == 0 {
		delete(o.byWork, item.work)
	} else {
		o.byWork[item.work] = rest
	}
}

// Delete implements cache.ReflectorStore.
func (o *objects) Delete(obj any) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("deleting a %T: not an object", obj)
	}
	key := keyOf(u)
	o.mu.Lock()
	old, existed := o.items[key]
	o.unset(key)
	o.seen = u.GetResourceVersion()
	o.mu.Unlock()
	if existed {
		o.changed(o.loss(key, old))
	}
	return nil
}

// Replace implements cache.ReflectorStore. Only what differs is a change, so that a watch that had to start over causes
// no needless work. What was seen before the member was away is not relied on: it may not be newer than the list, and the same
// version may be another object.
func (o *objects) Replace(list []any, version string) error {
	items := make(map[types.NamespacedName]kept, len(list))
	for _, obj := range list {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("keeping a %T: not an object", obj)
		}
		item, err := o.keep(u)
		if err != nil {
			return err
		}
		items[keyOf(u)] = item
	}
	lost := o.lost()
	o.mu.Lock()
	before, first := o.items, !o.synced
	restored := o.seen != "" && newer(o.seen, version) // from a backup: versions went back
	for key, old := range before {
		if !restored && old.lost == lost && newer(old.version, version) {
			items[key] = old // the answer to a write of ours that came after the list
		}
	}
	o.items = make(map[types.NamespacedName]kept, len(items))
	o.byWork = make(map[types.NamespacedName][]types.NamespacedName, len(items))
	for key, item := range items {
		o.set(key, item)
	}
	o.synced, o.seen, o.refused = true, version, nil
	waiting := o.onSync
	o.onSync = nil
	o.mu.Unlock()
	for key, item := range items {
		old, existed := before[key]
		if existed && old.version == item.version && (old.lost == lost || bytes.Equal(old.raw, item.raw)) {
			continue
		}
		change := o.difference(key, old, item, existed)
		change.Rewound = existed && (change.Rewound || old.lost != lost)
		change.Listed = !existed
		o.changed(change)
	}
	for key, old := range before {
		if _, exists := items[key]; !exists {
			o.changed(o.loss(key, old))
		}
	}
	if first {
		o.changed(Change{Cluster: o.cluster, Resource: o.resource, Synced: true})
	}
	for _, f := range waiting {
		f()
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (o *objects) Resync() error { return nil }

func (o *objects) keep(u *unstructured.Unstructured) (kept, error) {
	o.control.Trim(u) // a plain list does not go through the Transformer
	raw, err := u.MarshalJSON()
	if err != nil {
		return kept{}, fmt.Errorf("encoding %s %s: %w", u.GetKind(), keyOf(u), err)
	}
	fields := o.control.OurFields(u)
	return kept{
		raw: o.codec.compress(raw), version: u.GetResourceVersion(), work: o.control.WorkOf(u), lost: o.lost(), owned: ownership.Ownership(o.seed, fields),
		values: ownership.Values(o.seed, fields, u.Object), record: maphash.String(o.seed, u.GetAnnotations()[workv1alpha1.LastAppliedAnnotation]),
	}, nil
}

func (o *objects) difference(key types.NamespacedName, old, item kept, existed bool) Change {
	change := Change{Cluster: o.cluster, Resource: o.resource, Object: key, Work: item.work, New: !existed}
	if existed {
		change.Disowned = old.owned != item.owned || old.values != item.values && old.record == item.record
		if old.work != item.work {
			change.Previously = old.work
		}
		change.Rewound = !newer(item.version, old.version)
	}
	return change
}

func (o *objects) loss(key types.NamespacedName, old kept) Change {
	return Change{Cluster: o.cluster, Resource: o.resource, Object: key, Work: old.work, Gone: true}
}

// lookup decodes a fresh copy of an object.
func (o *objects) lookup(key types.NamespacedName) (*unstructured.Unstructured, bool) {
	o.mu.RLock()
	item, ok := o.items[key]
	o.mu.RUnlock()
	if !ok {
		return nil, false
	}
	raw, err := o.codec.decompress(item.raw)
	if err != nil {
		return nil, false // cannot happen: it was compressed here
	}
	obj, err := runtime.Decode(unstructured.UnstructuredJSONScheme, raw)
	if err != nil {
		return nil, false // cannot happen: it was encoded here
	}
	u, ok := obj.(*unstructured.Unstructured)
	return u, ok
}

// owned lists the objects that belong to a Work.
func (o *objects) owned(work types.NamespacedName) []types.NamespacedName {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.Clone(o.byWork[work])
}

// works lists every object with the Work it belongs to.
func (o *objects) works() map[types.NamespacedName]types.NamespacedName {
	o.mu.RLock()
	defer o.mu.RUnlock()
	works := make(map[types.NamespacedName]types.NamespacedName, len(o.items))
	for key, item := range o.items {
		works[key] = item.work
	}
	return works
}

func (o *objects) hasSynced() bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.synced
}

func (o *objects) hasPassed(version string) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.synced && !newer(version, o.seen)
}

// listed records how a list ended.
func (o *objects) listed(err error) {
	if !apierrors.IsForbidden(err) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused = err
}

func (o *objects) refusal() error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.refused
}

// whenSynced calls f once everything is known, at once if it is already.
func (o *objects) whenSynced(f func()) {
	o.mu.Lock()
	if !o.synced {
		o.onSync = append(o.onSync, f)
		o.mu.Unlock()
		return
	}
	o.mu.Unlock()
	f()
}
