package hubclient

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// New returns a client that reads from the manager's cache, but never an object older than what was last written through the
// client: a reconcile that follows a write closely must not write the same again. A read waits until the cache shows the writes;
// a list waits for all writes of the kind, unless it is called with client.DisableReadYourWritesConsistency. Do not write a kind
// through it that is not watched anyway: the client starts an informer for every kind it writes. The consistency is an experimental
// feature of controller-runtime.
func New(mgr ctrl.Manager, clk clock.Clock) (client.Client, error) {
	c, err := client.New(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		Cache: &client.CacheOptions{Reader: mgr.GetCache(), EnableReadYourWritesConsistency: new(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("building a client that reads its own writes: %w", err)
	}
	if local, ok := mgr.GetClient().(localWriter); ok {
		return local.WithRequests(c, NewWriteBarrier(mgr.GetCache(), clk).Await), nil
	}
	return c, nil
}

// NeverVersion is a resourceVersion no object has: the first write to a store makes number 1, and it is no object. In an apply it means "only if there
// is no such object", which saves asking first.
const NeverVersion = "1"

// localWriter is a client that writes some kinds without requests. WithRequests returns one that calls written after such a write, and has others made
// by requests.
type localWriter interface {
	WithRequests(requests client.Client, written func(context.Context, client.Object) error) client.Client
}

// replacer is implemented by a client that writes some kinds without requests, so that their states need not be encoded and compared. Done
// is false if the object has to be written with a request.
type replacer interface {
	Replace(ctx context.Context, subresource string, before, after client.Object, locked bool) (changed, done bool, err error)
}

// withStatus is implemented by a client that can write an object and its status in one. Done is false if the object has to be written with
// requests.
type withStatus interface {
	CreateWithStatus(ctx context.Context, obj client.Object) (done bool, err error)
	ReplaceWithStatus(ctx context.Context, obj client.Object) (done bool, err error)
}

// CreateWithStatus stores a new object with its status in one write. It returns false for done, and writes nothing, if the client cannot do that.
func CreateWithStatus(ctx context.Context, c client.Client, obj client.Object) (done bool, err error) {
	if local, ok := c.(withStatus); ok {
		return local.CreateWithStatus(ctx, obj)
	}
	return false, nil
}

// ReplaceWithStatus stores an object and its status in one write, instead of the version that the object names. Another one that is stored is a
// conflict. It returns false for done, and writes nothing, if the client cannot do that.
func ReplaceWithStatus(ctx context.Context, c client.Client, obj client.Object) (done bool, err error) {
	if local, ok := c.(withStatus); ok {
		return local.ReplaceWithStatus(ctx, obj)
	}
	return false, nil
}

// Patch sends the difference between two states of an object as a merge patch, and nothing if there is none. It returns whether
// there was one. After holds the answer of the server. The patch has no resource version: fields that others changed in between
// stay, unless they are part of the difference.
func Patch(ctx context.Context, c client.Client, before, after client.Object, options ...client.PatchOption) (bool, error) {
	return patch(ctx, c, change{before: before, after: after, special: special(options)}, func(difference client.Patch) error {
		return c.Patch(ctx, after, difference, options...)
	})
}

// PatchStatus is Patch for the subresource status.
func PatchStatus(ctx context.Context, c client.Client, before, after client.Object, options ...client.SubResourcePatchOption) (bool, error) {
	return patch(ctx, c, change{before: before, after: after, subresource: "status", special: len(options) > 0}, func(difference client.Patch) error {
		return c.Status().Patch(ctx, after, difference, options...)
	})
}

// PatchLocked is Patch, but a conflict if others changed the object since before. What replaces a whole list, such as that of the
// conditions or the taints, needs that.
func PatchLocked(ctx context.Context, c client.Client, before, after client.Object, options ...client.PatchOption) (bool, error) {
	return patch(ctx, c, change{before: before, after: after, locked: true, special: special(options)}, func(difference client.Patch) error {
		return c.Patch(ctx, after, difference, options...)
	})
}

// PatchStatusLocked is PatchLocked for the subresource status.
func PatchStatusLocked(ctx context.Context, c client.Client, before, after client.Object) (bool, error) {
	return patch(ctx, c, change{before: before, after: after, subresource: "status", locked: true}, func(difference client.Patch) error {
		return c.Status().Patch(ctx, after, difference)
	})
}

// change is a change of an object.
type change struct {
	before, after client.Object
	subresource   string
	// locked is true if the object must not have been changed by others.
	locked bool
	// special is true if there are options that only a request can have.
	special bool
}

// special returns whether options are more than the name of the field manager, which counts for an object with managed fields alone.
func special(options []client.PatchOption) bool {
	o := (&client.PatchOptions{}).ApplyOptions(options)
	return o.Force != nil || o.Raw != nil || len(o.DryRun) > 0
}

// patch makes a change, unless the states are equal: without a request if the client can do that and no option needs one, and with send
// otherwise.
func patch(ctx context.Context, c client.Client, ch change, send func(client.Patch) error) (changed bool, err error) {
	if reflect.DeepEqual(ch.before, ch.after) { // as a rule; encoding both takes much longer
		return false, nil
	}
	done := false
	if local, ok := c.(replacer); ok && !ch.special {
		changed, done, err = local.Replace(ctx, ch.subresource, ch.before, ch.after, ch.locked)
	}
	if done {
		return changed, patchError(err, c, ch)
	}
	raw, err := difference(ch.before, ch.after, ch.locked)
	if err != nil || raw == nil {
		return false, err
	}
	err = send(raw)
	return err == nil, patchError(err, c, ch)
}

func patchError(err error, c client.Client, ch change) error {
	switch {
	case err == nil:
		return nil
	case ch.subresource != "":
		return fmt.Errorf("patching the %s of %s: %w", ch.subresource, describe(c, ch.before), err)
	}
	return fmt.Errorf("patching %s: %w", describe(c, ch.before), err)
}

func difference(before, after client.Object, locked bool) (client.Patch, error) {
	raw, err := client.MergeFrom(before).Data(after)
	if err != nil {
		return nil, fmt.Errorf("comparing %s/%s: %w", before.GetNamespace(), before.GetName(), err)
	}
	switch {
	case string(raw) == "{}":
		return nil, nil
	case locked:
		return client.MergeFromWithOptions(before.DeepCopyObject().(client.Object), client.MergeFromWithOptimisticLock{}), nil
	default:
		return client.RawPatch(types.MergePatchType, raw), nil
	}
}

// AddFinalizer adds a finalizer, if the object lacks it. A merge patch replaces the whole list of finalizers, so that an object
// which others changed in between is a conflict. Obj itself is not changed.
func AddFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string, options ...client.PatchOption) error {
	marked := obj.DeepCopyObject().(client.Object)
	if !controllerutil.AddFinalizer(marked, finalizer) {
		return nil
	}
	if err := c.Patch(ctx, marked, client.MergeFromWithOptions(obj, client.MergeFromWithOptimisticLock{}), options...); err != nil {
		return fmt.Errorf("adding the finalizer of %s: %w", describe(c, obj), err)
	}
	return nil
}

// RemoveFinalizer removes a finalizer, if the object is there and has it. The patch tests the place of the finalizer in the list,
// so that other changes of the object, such as a status written in between, are no conflict. Obj itself is not changed.
func RemoveFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string, options ...client.PatchOption) error {
	at := slices.Index(obj.GetFinalizers(), finalizer)
	if at < 0 {
		return nil
	}
	path := fmt.Sprintf("/metadata/finalizers/%d", at)
	patch, err := json.Marshal([]map[string]string{{"op": "test", "path": path, "value": finalizer}, {"op": "remove", "path": path}})
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	released := obj.DeepCopyObject().(client.Object)
	removal := removal{client.RawPatch(types.JSONPatchType, patch), obj.GetUID(), finalizer}
	if err := c.Patch(ctx, released, removal, options...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of %s: %w", describe(c, obj), err)
	}
	return nil
}

// removal is the patch that removes a finalizer. The client of this process has it change the object itself.
type removal struct {
	client.Patch
	uid       types.UID
	finalizer string
}

// Change removes the finalizer from the object that is stored, unless it is another one of the same name.
func (r removal) Change(stored client.Object) {
	if stored.GetUID() == r.uid {
		stored.SetFinalizers(slices.DeleteFunc(slices.Clone(stored.GetFinalizers()), func(f string) bool { return f == r.finalizer }))
	}
}

func describe(c client.Client, obj client.Object) string {
	kind := "object"
	if gvk, err := c.GroupVersionKindFor(obj); err == nil {
		kind = gvk.Kind
	}
	return fmt.Sprintf("%s %s", kind, client.ObjectKeyFromObject(obj))
}
