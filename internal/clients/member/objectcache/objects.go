package objectcache

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
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
	// Last decodes the object as it was last, for one that is gone; nil for any other change.
	Last func() (*unstructured.Unstructured, bool)
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
	ordered  func(work types.NamespacedName) bool
	read     func(keys ...types.NamespacedName) // has objects read in full

	memberwatch.Holding
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
	head    bool   // raw is the head of the object
	version string
	work    types.NamespacedName
	owned   uint64
	values  uint64 // of the fields we own
	record  uint64 // what was applied last
	lost    uint64 // when it was seen
}

var _ cache.ReflectorStore = (*objects)(nil)

func newObjects(config Config, resource schema.GroupVersionResource) *objects {
	if config.Ordered == nil {
		config.Ordered = func(types.NamespacedName) bool { return true }
	}
	return &objects{
		ordered: config.Ordered, read: func(...types.NamespacedName) {},
		cluster: config.Cluster, resource: resource, control: config.ControlPlane, changed: config.Changed, lost: config.Lost, seed: maphash.MakeSeed(),
		codec: config.Codec,
		items: map[types.NamespacedName]kept{}, byWork: map[types.NamespacedName][]types.NamespacedName{},
	}
}

// listedObject is what Reduce returns.
type listedObject struct {
	key  types.NamespacedName
	item kept
}

// Reduce returns what is kept of an object of a list.
func (o *objects) Reduce(obj any) (any, bounds.Amount, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, bounds.Amount{}, fmt.Errorf("keeping a %T: not an object", obj)
	}
	item, err := o.keep(u)
	key := keyOf(u)
	return listedObject{key, item}, item.takes(key), err
}

// takes is what an item takes with its key.
func (k kept) takes(key types.NamespacedName) bounds.Amount {
	const each = 256 // of the two maps, and of the item itself
	return bounds.Amount{Objects: 1, Bytes: int64(each + len(k.raw) + len(key.Namespace) + len(key.Name) + len(k.work.Namespace) + len(k.work.Name))}
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
	if existed && !newer(version, old.version) && (item.head || !old.head) {
		o.mu.Unlock()
		return nil
	}
	o.set(key, item)
	o.mu.Unlock()
	o.complete(key, item)
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
	known := existed && !old.head && !newer(version, old.version)
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
	o.Change(item.takes(key))
}

// complete has an object read of which only the head is kept, if its Work has appeared meanwhile.
func (o *objects) complete(key types.NamespacedName, item kept) {
	if item.head && o.isOrdered(item.work) {
		o.read(key)
	}
}

// isOrdered returns whether a Work is one of this cluster.
func (o *objects) isOrdered(work types.NamespacedName) bool {
	return work.Namespace == workv1alpha1.ExecutionNamespace(o.cluster) && o.ordered(work)
}

// heads are the objects of a Work of which only the heads are kept.
func (o *objects) heads(work types.NamespacedName) []types.NamespacedName {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(o.byWork[work]), func(key types.NamespacedName) bool { return !o.items[key].head })
}

// unset drops an item. The lock is held.
func (o *objects) unset(key types.NamespacedName) {
	item, existed := o.items[key]
	if !existed {
		return
	}
	delete(o.items, key)
	o.Change(bounds.Amount{}.Minus(item.takes(key)))
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
		reduced, ok := obj.(listedObject)
		if !ok {
			var err error
			if obj, _, err = o.Reduce(obj); err != nil {
				return err
			}
			reduced, _ = obj.(listedObject)
		}
		items[reduced.key] = reduced.item
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
	o.Change(bounds.Amount{}.Minus(o.Held()))
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
		o.complete(key, item)
		old, existed := before[key]
		if existed && old.version == item.version && old.head == item.head && (old.lost == lost || bytes.Equal(old.raw, item.raw)) {
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

// keep returns what is kept of an object. Of one whose Work is not one of this cluster it is the head: whoever may write in the member
// may name any Work.
func (o *objects) keep(u *unstructured.Unstructured) (kept, error) {
	o.control.Trim(u)
	fields := o.control.OurFields(u)
	item := kept{
		version: u.GetResourceVersion(), work: o.control.WorkOf(u), lost: o.lost(), owned: ownership.Ownership(o.seed, fields),
		values: ownership.Values(o.seed, fields, u.Object), record: maphash.String(o.seed, u.GetAnnotations()[workv1alpha1.LastAppliedAnnotation]),
	}
	if max(len(item.work.Namespace), len(item.work.Name)) > bounds.NameBytes {
		item.work = types.NamespacedName{}
	}
	if item.head = !o.isOrdered(item.work); item.head {
		u = o.headOf(u, item.work)
	}
	raw, err := u.MarshalJSON()
	if err != nil {
		return kept{}, fmt.Errorf("encoding %s %s: %w", u.GetKind(), keyOf(u), err)
	}
	item.raw = o.codec.compress(raw)
	return item, nil
}

// headOf returns what identifies an object, and whose it is.
func (o *objects) headOf(u *unstructured.Unstructured, work types.NamespacedName) *unstructured.Unstructured {
	head := &unstructured.Unstructured{Object: map[string]any{}}
	head.SetAPIVersion(bounds.Cut(u.GetAPIVersion(), 2*bounds.NameBytes))
	head.SetKind(bounds.Cut(u.GetKind(), bounds.NameBytes))
	head.SetNamespace(u.GetNamespace())
	head.SetName(u.GetName())
	head.SetUID(u.GetUID())
	head.SetResourceVersion(u.GetResourceVersion())
	head.SetCreationTimestamp(u.GetCreationTimestamp())
	head.SetDeletionTimestamp(u.GetDeletionTimestamp())
	head.SetLabels(map[string]string{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue})
	annotations := map[string]string{workv1alpha1.WorkNamespaceAnnotation: work.Namespace, workv1alpha1.WorkNameAnnotation: work.Name}
	if id, identified := u.GetAnnotations()[workv1alpha1.ControlPlaneAnnotation]; identified {
		annotations[workv1alpha1.ControlPlaneAnnotation] = bounds.Cut(id, bounds.NameBytes)
	} else if other := o.control.Other(u); other != "" {
		annotations[workv1alpha1.ControlPlaneAnnotation] = bounds.Cut(other, bounds.NameBytes)
	}
	head.SetAnnotations(annotations)
	if o.control.OurFields(u) != nil {
		_ = unstructured.SetNestedSlice(head.Object, []any{map[string]any{ // metadata is a map
			"manager": o.control.Manager(), "operation": string(metav1.ManagedFieldsOperationApply), "fieldsV1": map[string]any{},
		}}, "metadata", "managedFields")
	}
	return head
}

func (o *objects) difference(key types.NamespacedName, old, item kept, existed bool) Change {
	change := Change{Cluster: o.cluster, Resource: o.resource, Object: key, Work: item.work, New: !existed}
	if existed {
		change.Disowned = old.owned != item.owned || old.values != item.values && old.record == item.record
		if old.work != item.work {
			change.Previously = old.work
		}
		change.Rewound = !newer(item.version, old.version) && !(old.head && old.version == item.version)
	}
	return change
}

func (o *objects) loss(key types.NamespacedName, old kept) Change {
	return Change{
		Cluster: o.cluster, Resource: o.resource, Object: key, Work: old.work, Gone: true,
		Last: func() (*unstructured.Unstructured, bool) {
			if old.head {
				return nil, false
			}
			return o.decode(old)
		},
	}
}

// lookup decodes a fresh copy of an object. Of one of which only the head is kept, it is that or, without heads, nothing.
func (o *objects) lookup(key types.NamespacedName, heads bool) (*unstructured.Unstructured, bool) {
	o.mu.RLock()
	item, ok := o.items[key]
	o.mu.RUnlock()
	if !ok || item.head && !heads {
		return nil, false
	}
	return o.decode(item)
}

func (o *objects) decode(item kept) (*unstructured.Unstructured, bool) {
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
